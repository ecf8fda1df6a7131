# SPDX-License-Identifier: Apache-2.0
"""A marked block in a TOML file. Everything around it stays as it is, to the last space."""

from __future__ import annotations

import tomllib

from cgpu.errors import CgpuError

BEGIN = "# >>> cgpu-runtime-config: added, do not edit"
BEGIN_IN_LINE = BEGIN + " (the line before had no end)"
END = "# <<< cgpu-runtime-config"


def parse(name: str, text: str) -> dict[str, object]:
    """Parse TOML. Raises CgpuError."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise CgpuError(f"{name}: {error}; TOML is accepted") from error


def insert(text: str, lines: list[str], at: int | None = None) -> str:
    """Return the text with a marked block after line number at, or at its end."""
    existing = text.splitlines(keepends=True)
    before, after = "".join(existing[:at]), "".join(existing[len(existing) if at is None else at :])
    begin = BEGIN if not before or before.endswith("\n") else "\n" + BEGIN_IN_LINE
    return before + "".join(f"{line}\n" for line in (begin, *lines, END)) + after


def strip(name: str, text: str) -> str:
    """Return the text without its marked block. Raises CgpuError when a mark is missing."""
    begin = next((mark for mark in (BEGIN + "\n", "\n" + BEGIN_IN_LINE + "\n") if mark in text), None)
    if begin is None:
        return text
    before, _, rest = text.partition(begin)
    _, mark, after = rest.partition(END + "\n")
    if not mark:
        raise CgpuError(f"{name}: the line {END!r} is missing after {BEGIN!r}: remove that block by hand")
    return before + after


def check(name: str, text: str, path: tuple[str, ...], wanted: object) -> None:
    """Raise CgpuError unless a text with a new block has the wanted value at a path."""
    try:
        found = child(parse(name, text), *path)
    except CgpuError:
        found = None
    if found != wanted:
        raise CgpuError(f"{name}: {'.'.join(path)} cannot be added: an earlier line gives it another form")


def child(parent: object, *names: str) -> object:
    """Return a value deep in a parsed file, None where a name on the way is missing."""
    for name in names:
        parent = parent.get(name) if isinstance(parent, dict) else None
    return parent
