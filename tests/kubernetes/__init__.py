# SPDX-License-Identifier: Apache-2.0
"""A cluster of one node with Kubernetes' own components, and the tests that run on it."""
