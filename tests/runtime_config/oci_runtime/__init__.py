# SPDX-License-Identifier: Apache-2.0
"""What cgpu-container-runtime does in Python: a bundle that is edited."""
