# SPDX-License-Identifier: Apache-2.0
"""How a change of a file is shown."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

NOWHERE = "/dev/null"


def diff(path: str, before: bytes | None, after: bytes | None) -> Iterator[str]:
    """Yield the lines of a unified diff, with the file's name on the node."""
    old, new = _lines(before), _lines(after)
    names = (NOWHERE if before is None else path, NOWHERE if after is None else path)
    for line in difflib.unified_diff(old, new, *names):
        yield line.rstrip("\n")
        if not line.endswith("\n"):
            yield "\\ No newline at end of file"


def _lines(content: bytes | None) -> list[str]:
    return (content or b"").decode("utf-8", "backslashreplace").splitlines(keepends=True)
