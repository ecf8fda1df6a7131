# SPDX-License-Identifier: Apache-2.0
"""Processes of the host: identity, end, descriptors, the daemon's lock."""
