# SPDX-License-Identifier: Apache-2.0
"""Pods with parts of GPUs that Kubernetes places: made-up nodes, real API server and scheduler."""
