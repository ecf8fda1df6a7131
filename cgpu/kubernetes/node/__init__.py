# SPDX-License-Identifier: Apache-2.0
"""The agent of a node: a driver of Dynamic Resource Allocation, which the kubelet calls."""
