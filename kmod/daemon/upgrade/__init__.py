# SPDX-License-Identifier: Apache-2.0
"""A daemon takes over from another one while containers run."""
