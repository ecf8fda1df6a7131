# SPDX-License-Identifier: Apache-2.0
"""Shares of GPU time under each policy: the core's scheduler on a simulated card, in virtual time."""
