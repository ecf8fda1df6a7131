# SPDX-License-Identifier: Apache-2.0
"""The tree as a file system of the daemon's own. What every engine's tree does is in tests/conformance."""

from __future__ import annotations

import stat
import subprocess

import pytest

from tests.daemon.harness import Daemon

pytestmark = pytest.mark.root


def shell(daemon: Daemon, line: str) -> subprocess.CompletedProcess[str]:
    """Run a shell line inside the tree."""
    return subprocess.run(
        ["/bin/sh", "-c", line], cwd=daemon.tree, capture_output=True, text=True, check=False
    )


def test_shell(daemon: Daemon) -> None:
    """The shell's own means are enough: cat, echo with > and >>, ls."""
    for arrow in (">", ">>"):
        assert shell(daemon, f"echo 3 {arrow} 0/policy && cat 0/policy").stdout == "3\n"
        assert shell(daemon, f"echo 1 {arrow} 0/policy && cat 0/policy").stdout == "1\n"
    assert "inst_ctl" in shell(daemon, "ls -l").stdout


def test_nobody_else_gets_in(daemon: Daemon) -> None:
    """The mount itself is closed to all but root, whatever its nodes allow."""
    assert stat.S_IMODE(daemon.tree.stat().st_mode) == 0o700


def test_upgrade(daemon: Daemon) -> None:
    """The daemon has no second part that could be exchanged while it runs."""
    with pytest.raises(OSError, match="Device or resource busy"):
        daemon.write("upgrade", "1\n")
    assert daemon.read("upgrade") == "0\n"
