# SPDX-License-Identifier: Apache-2.0
"""cgpu support-bundle: what support has to see of a node, without secrets and environment values."""
