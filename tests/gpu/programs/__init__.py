# SPDX-License-Identifier: Apache-2.0
"""Programs that run in a slice, by an interpreter that has the frameworks and nothing of the project."""
