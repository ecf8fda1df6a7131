# SPDX-License-Identifier: Apache-2.0
"""Packages, the installer and the node's commands, in a virtual machine."""
