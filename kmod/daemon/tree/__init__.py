# SPDX-License-Identifier: Apache-2.0
"""The engine's tree as a file system."""
