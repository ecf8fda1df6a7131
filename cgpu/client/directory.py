# SPDX-License-Identifier: Apache-2.0
"""The names of a container: of its directory in the tree, and of its cgroup."""

from __future__ import annotations


def directory_of(container: str) -> str:
    """Return the name of a container's directory: 12 characters of a 64-digit hexadecimal id, else the id."""
    short = len(container) == 64 and not container.strip("0123456789abcdefABCDEF")
    return container[:12] if short else container


def group_named(path: str, container: str) -> str:
    """Return the part of a cgroup's path up to the one that runtimes name after a container; "" for none."""
    parts = path.split("/")
    for at, part in enumerate(parts):
        name = part.removesuffix(".scope")
        if name == container or name.endswith(f"-{container}"):
            return "/".join(parts[: at + 1])
    return ""
