# SPDX-License-Identifier: Apache-2.0
"""What nvidia-smi prints, as values."""

from __future__ import annotations

import csv
import io


def details(text: str) -> dict[str, str]:
    """Return the values of `nvidia-smi -q` by their headings, joined by slashes; the time is left out."""
    found: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith("="):
            continue
        depth = len(line) - len(line.lstrip())
        name, colon, value = (part.strip() for part in stripped.partition(" : "))
        above = [(at, heading) for at, heading in above if at < depth]
        if not colon:
            above.append((depth, name))
        elif name != "Timestamp":
            found["/".join([*(heading for _, heading in above[1:]), name])] = value
    return found


def rows(text: str) -> list[dict[str, str]]:
    """Return what a --query option prints with --format=csv."""
    return list(csv.DictReader(io.StringIO(text), skipinitialspace=True))
