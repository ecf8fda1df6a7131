# SPDX-License-Identifier: Apache-2.0
"""The fake NVIDIA driver."""
