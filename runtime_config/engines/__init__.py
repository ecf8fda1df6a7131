# SPDX-License-Identifier: Apache-2.0
"""The container engines, an object for each: its settings, its containers, how it learns of a change."""
