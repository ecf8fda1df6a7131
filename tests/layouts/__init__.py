# SPDX-License-Identifier: Apache-2.0
"""Core and simulated cards together, over random histories, for every layout of the driver's structs."""
