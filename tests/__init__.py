# SPDX-License-Identifier: Apache-2.0
"""Tests: one folder per part, and integration/ with real container runtimes."""
