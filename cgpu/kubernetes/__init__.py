# SPDX-License-Identifier: Apache-2.0
"""Kubernetes: slices as devices of Dynamic Resource Allocation, which Kubernetes schedules itself."""
