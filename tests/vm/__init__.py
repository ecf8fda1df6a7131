# SPDX-License-Identifier: Apache-2.0
"""Tests in virtual machines."""
