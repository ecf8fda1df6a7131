# SPDX-License-Identifier: Apache-2.0
"""Facts of the NVIDIA driver and the generator of their C tables."""
