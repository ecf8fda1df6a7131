# SPDX-License-Identifier: Apache-2.0
"""cgpu status: the engine and its GPUs in a few lines, and whether sliced containers can start."""
