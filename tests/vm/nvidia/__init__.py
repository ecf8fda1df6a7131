# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's real open kernel driver in a virtual machine, on a PCI card made in software."""
