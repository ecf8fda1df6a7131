# SPDX-License-Identifier: Apache-2.0
"""The hook in C where it finds no Python."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.hook.support import FakeTree, Result, compile_hook


@pytest.mark.root
def test_without_its_own_files(tmp_path: Path) -> None:
    """A hook that does not find its script says why, and nothing of Python."""
    program = compile_hook(tmp_path)
    command = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "hook"]
    done = subprocess.run(
        [*command, str(program), "prestart"], input=b"{", capture_output=True, check=False, timeout=60
    )
    line = b"opencgpu: /proc/self/exe: No such file or directory; this program finds its other files by it\n"
    assert (done.returncode, done.stderr) == (1, line)


def test_without_python(tree: FakeTree, tmp_path: Path) -> None:
    """Without Python, a container that needs it is refused in one line."""
    folder = tmp_path / "without"
    folder.mkdir()
    tree.program = compile_hook(folder, python="/nowhere/python3")
    result = tree.run("prestart")
    line = "opencgpu: cannot start /nowhere/python3: No such file or directory; install this Python\n"
    assert result == Result(1, line, "")
    # What the engine says needs none: the message is the hook's, and the line in the logs alone is missing.
    tree.inst_ctl.unlink()
    tree.inst_ctl.symlink_to("/dev/full")
    result = tree.run(*tree.given())
    assert (result.status, "refused: No space left on device\n" in result.errors) == (1, True)
