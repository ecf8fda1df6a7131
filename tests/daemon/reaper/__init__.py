# SPDX-License-Identifier: Apache-2.0
"""Tests of what follows the end of a process."""
