# SPDX-License-Identifier: Apache-2.0
"""The memory limit, and what is accounted for, in a virtual machine."""
