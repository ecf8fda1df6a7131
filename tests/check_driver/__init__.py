# SPDX-License-Identifier: Apache-2.0
"""The check of a driver, on simulated cards that play every version, and say another."""
