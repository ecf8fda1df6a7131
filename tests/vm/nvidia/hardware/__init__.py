# SPDX-License-Identifier: Apache-2.0
"""The card in software, its fake GSP, and the table of what they know of the driver."""
