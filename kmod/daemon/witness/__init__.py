# SPDX-License-Identifier: Apache-2.0
"""Counts the pages that the driver gives out, from outside of it: cgpu-witness, and the places it watches."""
