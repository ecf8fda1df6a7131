# SPDX-License-Identifier: Apache-2.0
"""Files of a node: where they lie below a root folder, which may be that of a copy, and their changes."""

from __future__ import annotations

import difflib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


def below(root: Path, path: str | Path) -> Path:
    """Return where an absolute path lies below a root folder."""
    return root / str(path).lstrip("/")


@dataclass(frozen=True, slots=True)
class FileEdit:
    """One file's bytes before and after; None: it is not there. mode is that of a file that is made."""

    path: Path
    before: bytes | None
    after: bytes | None
    mode: int = 0o644


def diff(name: str, before: bytes | None, after: bytes | None) -> Iterator[str]:
    """Yield the lines of a unified diff of a file, without their ends."""
    # Only "\n" ends a line here: splitlines() cuts at other characters as well.
    old, new = (
        io.StringIO((content or b"").decode("utf-8", "backslashreplace")).readlines()
        for content in (before, after)
    )
    old_name, new_name = ("/dev/null" if content is None else name for content in (before, after))
    for line in difflib.unified_diff(old, new, old_name, new_name):
        yield line.rstrip("\n")
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"
