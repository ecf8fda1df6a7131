# SPDX-License-Identifier: Apache-2.0
"""The container engines: their settings, and cgpu-runtime-config."""
