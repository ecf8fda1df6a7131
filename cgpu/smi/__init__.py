# SPDX-License-Identifier: Apache-2.0
"""cgpu-smi: what runs on the GPUs."""
