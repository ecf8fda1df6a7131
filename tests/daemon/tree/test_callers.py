# SPDX-License-Identifier: Apache-2.0
"""Processes that may write to the tree, and the mounts that the kernel shows."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cgpu.kmod.daemon.tree import callers, mounts
from tests.daemon.conftest import MakeDaemon
from tests.integration.commands import call


@contextlib.contextmanager
def running_cat(*command: str) -> Iterator[int]:
    """Have cat run by another program, which becomes it; give its number once it runs."""
    with subprocess.Popen([*command, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(b"x")
        child.stdin.flush()
        assert child.stdout.read(1) == b"x"
        yield child.pid
        child.stdin.close()


@pytest.mark.root
@pytest.mark.parametrize("dropped", ["sys_admin", "checkpoint_restore,-sys_ptrace"])
def test_capabilities(dropped: str) -> None:
    """They are those that the kernel shows of the thread, and sys_admin alone decides."""
    # On exec root has as effective what is in its bounding set.
    with running_cat("setpriv", f"--bounding-set=-{dropped}") as pid:
        status = Path(f"/proc/{pid}/status").read_text()
        shown = int(re.findall(r"^CapEff:\t([0-9a-f]{16})$", status, re.MULTILINE)[0], 16)
        assert callers.effective_capabilities(pid) == shown
        assert callers.may_write(pid) is (dropped != "sys_admin")


@pytest.mark.root
def test_capabilities_in_another_user_namespace() -> None:
    """All capabilities of a namespace of its own are none here."""
    with running_cat("unshare", "--user", "--map-root-user") as pid:
        assert callers.effective_capabilities(pid) >> callers.CAP_SYS_ADMIN & 1
        assert not callers.may_write(pid)


@pytest.mark.root
@pytest.mark.parametrize("command", ["cat version", "cat inst_ctl", "ls 0", "ls ."])
def test_root_of_a_container_reads_nothing(make_daemon: MakeDaemon, command: str) -> None:
    """Root with what docker gives a container opens no entry and lists no folder of a tree that it sees.

    It would learn of others' containers, and have as many open files as the daemon keeps for all.
    """
    daemon = make_daemon()
    program, entry = command.split()
    words = [program, str(daemon.tree / entry)]
    assert "Operation not permitted" in call(["setpriv", "--bounding-set=-sys_admin", *words]).stderr
    assert "Operation not permitted" not in call(words).stderr


def test_unknown_caller_may_not_write() -> None:
    """A caller that cannot be looked at may not write."""
    assert not any(callers.may_write(pid) for pid in (0, -1, 1 << 30))


def test_mounts_are_read_from_their_list(tmp_path: Path) -> None:
    """Mounts on a path are found by name, escapes and layers included."""
    table = tmp_path / "mountinfo"
    table.write_text(
        "1 2 0:3 / /run/a\\040b rw - tmpfs none rw\n"
        "2 2 0:4 / /run/a\\040b rw shared:1 - fuse cgpud rw\n"
        "3 2 0:5 / /run/a rw - fuse.other x rw\nnonsense\n"
    )
    assert mounts.mounted("/run/a b", table) == ["tmpfs", "fuse"]
    assert mounts.mounted("/run", table) == []
