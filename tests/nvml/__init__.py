# SPDX-License-Identifier: Apache-2.0
"""Limits of the driver's own: a fake of NVIDIA's library, over simulated cards that keep them."""
