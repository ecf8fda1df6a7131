# SPDX-License-Identifier: Apache-2.0
"""Checks on a real GPU (check_*.py, for scripts/test-gpu), and tests of their parts that need none."""
