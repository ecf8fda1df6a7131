# SPDX-License-Identifier: Apache-2.0
"""OpenCGPU: slices of a GPU for containers."""

__version__ = "0.1.0"
