# SPDX-License-Identifier: Apache-2.0
"""Values as cgpu-smi writes them: in table and CSV, always in printable ASCII."""

from __future__ import annotations

from cgpu.errors import one_line

MIB = 1 << 20
UNKNOWN = "N/A"
DOTS = "..."
UNITS = {"bytes": "B", "percent": "%", "ns": "ns", "seconds": "s"}
"""By the last word of a name in JSON and CSV."""


def cut(text: str, width: int) -> str:
    """Return printable text that fits the width; three dots stand for what was cut."""
    safe = one_line(text)
    return safe if len(safe) <= width else (safe[: max(0, width - len(DOTS))] + DOTS)[: max(0, width)]


def called(name: str, width: int) -> str:
    """Return a container's name that fits: of NAMESPACE/POD/CONTAINER the pod counts for most."""
    fits = len(one_line(name)) <= width or name.count("/") != 2
    return cut(name if fits else name.partition("/")[2], width)


def known(value: str | float | None) -> str:
    """Return a value as it is."""
    return UNKNOWN if value is None else one_line(str(value))


def short_uuid(uuid: str) -> str:
    """Return a UUID up to its first group."""
    return one_line("-".join(uuid.split("-")[:2]))


def in_mib(size: int | None) -> int | None:
    """Return bytes as MiB, rounded up: one page in use must not show as nothing."""
    return None if size is None else -(-size // MIB)


def memory(size: int | None, between: str = "") -> str:
    """Return bytes in MiB. between: the text between the number and its unit."""
    return UNKNOWN if size is None else f"{in_mib(size)}{between}MiB"


def percent(share: float | None) -> str:
    """Return a share in percent."""
    return UNKNOWN if share is None else f"{share:.0f}%"


def of_limit(used: int, limit: int) -> float:
    """Return which part of a limit is used, in percent."""
    return 100 * used / limit
