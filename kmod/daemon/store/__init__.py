# SPDX-License-Identifier: Apache-2.0
"""What outlives a daemon: descriptors in a store, and the keeper of that store where there is no systemd."""
