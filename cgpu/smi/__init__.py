# SPDX-License-Identifier: Apache-2.0
"""cgpu-smi: slices and processes on the GPUs."""
