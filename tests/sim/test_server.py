# SPDX-License-Identifier: Apache-2.0
"""Starting and stopping the server."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.sim.conftest import Start


def test_sigterm_unmounts(start: Start) -> None:
    """SIGTERM unmounts and ends the server, even while a client is open."""
    sim = start("T4")
    fd = sim.open()
    sim.stop()
    assert sim.process.returncode == 0
    assert not sim.mount.is_mount()
    os.close(fd)


def run(built: Path, mount: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a server that does not come up."""
    command = [str(built / "cgpu-sim"), "--mount", str(mount), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def test_a_mount_is_no_place_for_another(start: Start, built: Path) -> None:
    """A second server on the same folder ends with a line that says how the first one's mount goes."""
    again = run(built, start("T4").mount, "--cards", "T4")
    assert again.returncode == 1
    assert "umount" in again.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--cards", "P100"], "the model is T4, "),
        (["--cards", "T4="], "MIB is a number"),
        (["--cards", "T4=0"], "MIB is a number"),
        (["--cards", "T4:33"], "COUNT is a number from 1 to 32"),
        (["--cards", "T4:1x"], "the form is"),
        (["--cards", "T4/mig=0"], "MIG"),
        (["--cards", "H200:2/mig=2"], "MIG"),
        (["--cards", "H200/mig=0,0"], "the form is"),
        (["--cards", "T4", "--driver", "1.2.3"], "not a driver version"),
        (["--cards", "T4", "--driver", "580.142x"], "not a driver version"),
    ],
)
def test_bad_arguments(built: Path, tmp_path: Path, arguments: list[str], words: str) -> None:
    """A wrong argument is one line that names it, exit 1, and nothing is left mounted."""
    done = run(built, tmp_path / "m", *arguments)
    assert done.returncode == 1
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "m").is_mount()
