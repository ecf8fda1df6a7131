# SPDX-License-Identifier: Apache-2.0
"""The part of cgpu-container-runtime that reads and edits a bundle before the low-level runtime sees it."""
