# SPDX-License-Identifier: Apache-2.0
"""A file whose file system never answers a read."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.attacks.build import FUSE, alone


@contextmanager
def silent_file(folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Have a file that its file system never reads; give it with the process that serves it."""
    folder.mkdir()
    command = [str(alone("silent_files", "-static", place=FUSE)), str(folder)]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    assert server.stdout.readline() == "serving\n"
    try:
        yield str(folder / "file"), server
    finally:
        if server.returncode is None:
            server.communicate("")
