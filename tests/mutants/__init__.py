# SPDX-License-Identifier: Apache-2.0
"""Small faults as patches, to show which tests catch them."""
