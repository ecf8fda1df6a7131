# SPDX-License-Identifier: Apache-2.0
"""Why the last start of an engine refused the configuration.

For the runtime and the hook, which read no YAML. Read only after something has failed.
"""

from __future__ import annotations

import os

from cgpu import paths
from cgpu.errors import one_line
from cgpu.fastjson import loads
from cgpu.files import read_bounded

MAX_BYTES = 1 << 14


def note(config: str, why: str, path: str | None = None) -> None:
    """Keep why a configuration file was refused, with what tells whether the file has changed since.

    Nothing is kept where the file is not there or the note cannot be written: the caller fails anyway.
    """
    import json
    from pathlib import Path

    from cgpu.replace import replace_text

    path = path or paths.REFUSED
    try:
        document = {"file": os.path.abspath(config), "state": _state(config), "why": why}
        folder = os.path.dirname(path)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        replace_text(Path(path), json.dumps(document))
    except OSError:
        return


def forget(path: str | None = None) -> None:
    """Remove the note: an engine has taken the configuration. Raises OSError."""
    try:
        os.unlink(path or paths.REFUSED)
    except FileNotFoundError:
        return


def why(path: str | None = None) -> str:
    """Return why the configuration was refused; empty where it was not, or the file has changed since."""
    try:
        document = loads(read_bounded(path or paths.REFUSED, MAX_BYTES))
        if not isinstance(document, dict):
            return ""
        file, state, text = (document.get(name) for name in ("file", "state", "why"))
        if not isinstance(file, str) or not isinstance(text, str) or state != _state(file):
            return ""
    except (OSError, ValueError):
        return ""
    return one_line(text)


def _state(file: str) -> list[int]:
    found = os.stat(file)
    return [found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size]
