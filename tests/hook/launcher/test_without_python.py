# SPDX-License-Identifier: Apache-2.0
"""The hook in C where it cannot read its state, or finds no Python."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.hook.support import FakeTree, compile_hook


def test_a_state_that_cannot_be_read(tree: FakeTree) -> None:
    """An error while the state is read refuses the container, also after a valid part."""
    reader, writer = os.pipe2(os.O_NONBLOCK)
    try:
        os.write(writer, tree.state().encode())
        command = [*tree.command(), "prestart", "--grant", "0:1048576:1:0"]
        done = subprocess.run(
            command, stdin=reader, capture_output=True, check=False, cwd=tree.base, timeout=60
        )
    finally:
        os.close(reader)
        os.close(writer)
    assert done.returncode == 1
    assert b"cannot be read (Resource temporarily unavailable)" in done.stderr
    assert tree.inst_ctl.read_text() == ""


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
    assert (result.status, result.errors, result.written) == (1, line, "")
