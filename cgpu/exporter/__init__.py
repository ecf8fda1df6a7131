# SPDX-License-Identifier: Apache-2.0
"""Metrics for Prometheus, out of the engine's tree. docs/metrics.md lists them."""
