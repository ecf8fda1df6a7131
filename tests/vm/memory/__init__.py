# SPDX-License-Identifier: Apache-2.0
"""The memory limit, and accounted memory, in a virtual machine."""
