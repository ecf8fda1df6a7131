# SPDX-License-Identifier: Apache-2.0
"""Three lanes of tests: `make check` after an edit, `make test` before a commit lands, `make test-release` in shards."""
