# SPDX-License-Identifier: Apache-2.0
"""How many pods with parts of GPUs Kubernetes places: made-up nodes, real API server and scheduler."""
