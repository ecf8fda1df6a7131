# SPDX-License-Identifier: Apache-2.0
"""Paths of a node that lie below a root folder, so that all can be done to a copy of it."""

from __future__ import annotations

from pathlib import Path


def below(root: Path, path: str | Path) -> Path:
    """Return where an absolute path lies below a root folder."""
    return root / str(path).lstrip("/")
