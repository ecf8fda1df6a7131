# SPDX-License-Identifier: Apache-2.0
"""The stand-in for the NVIDIA driver, and its tests."""
