# SPDX-License-Identifier: Apache-2.0
"""Where an engine's tree is, by the configuration in force."""

from __future__ import annotations

import json
from pathlib import Path

from cgpu import paths
from cgpu.install.node.facts import files


def of_daemon(root: Path) -> str:
    """Return the path that cgpud was last started with, its usual one where nobody can tell."""
    try:
        document = json.loads(files.text(root, paths.EFFECTIVE) or "{}")
    except (ValueError, RecursionError):
        return paths.TREE_DAEMON
    named = document.get("tree") if isinstance(document, dict) else None
    is_path = isinstance(named, str) and named.startswith("/") and "\0" not in named
    return str(named) if is_path else paths.TREE_DAEMON


def possible(root: Path) -> tuple[str, ...]:
    """Return every path at which an engine of this machine may have its tree, each once."""
    return tuple(dict.fromkeys((*paths.TREES, of_daemon(root))))
