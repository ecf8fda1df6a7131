# SPDX-License-Identifier: Apache-2.0
"""Versions of the driver that a node is given by signed files, beside those of the table."""
