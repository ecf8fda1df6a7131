# SPDX-License-Identifier: Apache-2.0
"""The launcher of cgpu-container-runtime, in C."""
