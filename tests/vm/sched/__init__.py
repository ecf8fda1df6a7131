# SPDX-License-Identifier: Apache-2.0
"""Shares of GPU time, and the module's own cost, in a virtual machine."""
