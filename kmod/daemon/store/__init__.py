# SPDX-License-Identifier: Apache-2.0
"""Descriptors in a store, which outlive a daemon, and the keeper of that store where there is no systemd."""
