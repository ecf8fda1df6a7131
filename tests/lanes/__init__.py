# SPDX-License-Identifier: Apache-2.0
"""Lanes of tests: `make check` after an edit, `make test` before a change lands, `make test-release`."""
