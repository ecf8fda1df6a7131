# SPDX-License-Identifier: Apache-2.0
"""Ways around a limit that users found in other tools, and leaks they met there, tried on both engines."""
