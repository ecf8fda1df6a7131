# SPDX-License-Identifier: Apache-2.0
"""cgpu config: show, check, set and explain the node's configuration."""
