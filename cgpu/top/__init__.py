# SPDX-License-Identifier: Apache-2.0
"""cgpu top: a live view of cards and slices in the terminal."""
