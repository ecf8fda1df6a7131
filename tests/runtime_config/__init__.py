# SPDX-License-Identifier: Apache-2.0
"""Tests of the runtime wrapper and of the engines' settings."""
