# SPDX-License-Identifier: Apache-2.0
"""What a container must not reach, and what the module does with each call, in a virtual machine."""
