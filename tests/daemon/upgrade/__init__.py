# SPDX-License-Identifier: Apache-2.0
"""Tests of upgrades of a running daemon."""
