# SPDX-License-Identifier: Apache-2.0
"""The processes of the cluster, users of its API, and helpers of tests."""
