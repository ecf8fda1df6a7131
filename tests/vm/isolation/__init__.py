# SPDX-License-Identifier: Apache-2.0
"""Isolation of a container, and the module's verdict on each call, in a virtual machine."""
