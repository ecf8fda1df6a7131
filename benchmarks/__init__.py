# SPDX-License-Identifier: Apache-2.0
"""Measurements against peers and against doing nothing, in one run each."""
