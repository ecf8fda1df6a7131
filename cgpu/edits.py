# SPDX-License-Identifier: Apache-2.0
"""A change of one file, before it is made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class FileEdit:
    """One file's bytes before and after; None: it is not there. mode is that of a file that is made."""

    path: Path
    before: bytes | None
    after: bytes | None
    mode: int = 0o644
