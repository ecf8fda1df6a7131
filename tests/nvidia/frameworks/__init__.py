# SPDX-License-Identifier: Apache-2.0
"""PyTorch and CuPy of PyPI on a simulated card, for scripts/test-frameworks alone: they are gigabytes."""
