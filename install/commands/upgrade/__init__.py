# SPDX-License-Identifier: Apache-2.0
"""cgpu upgrade: replaces the running engine by the installed version."""
