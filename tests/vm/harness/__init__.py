# SPDX-License-Identifier: Apache-2.0
"""Virtual machines, the kernels that they boot, the node in them and its slices."""
