# SPDX-License-Identifier: Apache-2.0
"""The processes of the cluster, who may call its API, and what tests do with it."""
