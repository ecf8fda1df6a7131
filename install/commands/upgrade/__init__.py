# SPDX-License-Identifier: Apache-2.0
"""cgpu upgrade: the engine that runs gives way to the version that is installed."""
