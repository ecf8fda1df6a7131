# SPDX-License-Identifier: Apache-2.0
"""Tests of shares of GPU time."""
