# SPDX-License-Identifier: Apache-2.0
"""Tests of the simulated cards, and of the probe that drives them."""
