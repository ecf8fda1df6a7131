# SPDX-License-Identifier: Apache-2.0
"""The name of a container's directory in the tree."""

from __future__ import annotations


def directory_of(container: str) -> str:
    """Return the name of a container's directory: 12 characters of a 64-digit hexadecimal id, else the id."""
    short = len(container) == 64 and not container.strip("0123456789abcdefABCDEF")
    return container[:12] if short else container
