# SPDX-License-Identifier: Apache-2.0
"""Facts of a machine, and of what OpenCGPU has on it. Nothing here writes."""
