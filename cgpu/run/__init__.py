# SPDX-License-Identifier: Apache-2.0
"""cgpu run: one process tree in a slice, without a container."""
