# SPDX-License-Identifier: Apache-2.0
"""A container's request for GPUs, and its allocation."""
