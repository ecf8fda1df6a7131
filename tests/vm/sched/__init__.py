# SPDX-License-Identifier: Apache-2.0
"""Shares of GPU time, and what the module itself costs, in a virtual machine."""
