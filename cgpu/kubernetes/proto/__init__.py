# SPDX-License-Identifier: Apache-2.0
"""The kubelet's interfaces, of which `make proto` makes the Python files."""
