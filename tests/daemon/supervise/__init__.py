# SPDX-License-Identifier: Apache-2.0
"""Tests of listeners, filters and notified calls."""
