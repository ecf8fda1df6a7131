# SPDX-License-Identifier: Apache-2.0
"""What a container asks for, and what it gets."""
