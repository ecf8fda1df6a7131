# SPDX-License-Identifier: Apache-2.0
"""A command is never started without its slice: the waiting child, a listener that is not taken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from cgpu.run.cgroup import PREFIX, Group, sweep

# Each in a process of its own: signals are held back, filters stay.
PARENT = """
import os, signal, sys
from cgpu.run import child
process = child.start(child.Plan(tuple(sys.argv[2:])), child.hold())
if sys.argv[1] == "released":
    process.release()
elif sys.argv[1] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
elif sys.argv[1] == "close":
    process.close()
    sys.exit(0)
else:
    os.kill(process.pid, signal.SIGTERM)
sys.exit(process.wait())
"""


def python(code: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    command: Sequence[str | Path] = [sys.executable, "-c", code, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def test_released(tmp_path: Path) -> None:
    """A child that is released becomes the command."""
    done = python(PARENT, "released", "/bin/sh", "-c", f"echo ran >{tmp_path}/ran; exit 5")
    assert (done.returncode, done.stderr) == (5, "")
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize(("way", "status"), [("close", 0), ("killed", -9), ("signalled", 143)])
def test_not_released(tmp_path: Path, way: str, status: int) -> None:
    """A child that is not released never becomes the command, after any end of its parent or itself."""
    done = python(PARENT, way, "/bin/sh", "-c", f"echo ran >{tmp_path}/ran")
    assert done.returncode == status, done.stderr
    assert not (tmp_path / "ran").exists()


def test_message_has_all_fields() -> None:
    """The message to the engine is a whole OCI container process state."""
    code = "from cgpu.run import supervision; print(supervision.Supervision('run-0', b'')._state(7).decode())"
    state = json.loads(python(code).stdout)
    assert (state["fds"], state["pid"], state["metadata"]) == (["seccompFd"], 7, "run-0")
    assert set(state["state"]) == {"ociVersion", "id", "status", "pid", "bundle"}


def test_group_locks_and_sweeps(tmp_path: Path) -> None:
    """A group is locked as long as its run lives; an unlocked one goes with the next run."""
    group = Group()
    group.make("run-0123abcd", [tmp_path])
    # Other users cannot open the group, and so lock it.
    assert group.paths[0].stat().st_mode & 0o066 == 0
    left, other = tmp_path / f"{PREFIX}run-{os.urandom(4).hex()}", tmp_path / "somebody-else"
    left.mkdir()
    other.mkdir()
    sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cgpu-run-0123abcd", "somebody-else"]
    assert group.remove() == []
    assert [path.name for path in tmp_path.iterdir()] == ["somebody-else"]


def test_socket_that_is_not_there(tmp_path: Path) -> None:
    """Without the engine's socket no filter is put on, and the line says what to start."""
    code = f"""
from cgpu.run import supervision
supervision.Supervision("run-0", b"", "{tmp_path}/none").begin()
"""
    done = python(code)
    assert "CgpuError" in done.stderr
    assert f"{tmp_path}/none: No such file or directory: " in done.stderr
