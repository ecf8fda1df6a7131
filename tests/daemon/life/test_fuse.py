# SPDX-License-Identifier: Apache-2.0
"""The daemon's choice of a libfuse, and its error without one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cgpu.kmod.daemon.tree import libfuse
from tests.integration.engine import CGPUD

# Cover every libfuse 3 by an empty file, for the command that follows alone.
COVER = 'for one in /usr/lib/*/libfuse3.so.*.*; do mount --bind /dev/null "$one" || exit 9; done; exec "$@"'


@pytest.mark.parametrize("here", [("libfuse3.so.3",), ("libfuse3.so.3", "libfuse3.so.4")])
def test_newest(here: tuple[str, ...]) -> None:
    """The newest libfuse 3 that is there is loaded."""

    def load(name: str) -> None:
        if name not in here:
            raise OSError(f"{name}: cannot open shared object file")

    assert libfuse.find(load) == here[-1]


@pytest.mark.root
def test_command(tmp_path: Path) -> None:
    """A daemon without it does not start, and says so in a line."""
    command = ["unshare", "--mount", "sh", "-c", COVER, "sh", str(CGPUD), "--simulate", "T4"]
    command += ["--run", str(tmp_path / "run"), "--tree", str(tmp_path / "tree")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "libfuse 3 cannot be loaded (libfuse3.so.4: " in done.stderr
    assert done.stderr.splitlines()[-1].endswith("; apt-get install fuse3")
    assert "Traceback" not in done.stderr
