# SPDX-License-Identifier: Apache-2.0
"""Steps that are taken all or not at all, and the journal by which each of them is undone."""
