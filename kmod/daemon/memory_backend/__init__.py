# SPDX-License-Identifier: Apache-2.0
"""Who limits memory on this node: the core, or NVIDIA's driver."""
