# SPDX-License-Identifier: Apache-2.0
"""Loading, containers that begin and end, upgrades and driver versions, in a virtual machine."""
