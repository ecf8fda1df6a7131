# SPDX-License-Identifier: Apache-2.0
"""Faults at every step, and between all steps: the node is as before, or it has everything."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from cgpu.errors import CgpuError
from cgpu.install import recover
from cgpu.install.transaction import journal
from tests.install import faults
from tests.install.engines import ENGINES
from tests.install.faults import When
from tests.install.support import DAEMON, System, installer, make_node, snapshot

WHENS: tuple[When, ...] = ("before", "behind")
THENS = ("install", "recover", "uninstall")


class Nodes:
    """Copies of one node, each for one fault."""

    def __init__(self, folder: Path) -> None:
        """Make the node, and see what it is like with all installed."""
        self.folder = folder
        self.number = 0
        self.bare = make_node(folder / "bare")
        self.before = snapshot(self.bare)
        self.installed = self.copy(self.bare).rename(folder / "installed")
        self.calls = faults.count(lambda: installer(self.installed).install(DAEMON))
        self.after = settled(self.installed)

    def copy(self, source: Path) -> Path:
        shutil.rmtree(self.folder / str(self.number), ignore_errors=True)
        self.number += 1
        target = self.folder / str(self.number)
        shutil.copytree(source, target, symlinks=True)
        hard = target / "etc/storage/hosts.other"
        hard.unlink()
        hard.hardlink_to(target / "etc/hosts")
        if source.stat().st_uid == 0:
            copy_owners(source, target)
        return target


def copy_owners(source: Path, target: Path) -> None:
    """Give the copy's files the owners that the source's have."""
    for path in source.rglob("*"):
        status = path.lstat()
        shutil.chown(
            target / path.relative_to(source), status.st_uid, status.st_gid
        ) if not path.is_symlink() else None


def settled(root: Path) -> dict[str, object]:
    """Return names and contents; the record apart, which names times."""
    record = "var/lib/cgpu/install"
    return {
        name: (entry[0], entry[4]) for name, entry in snapshot(root).items() if not name.startswith(record)
    }


def check_settings(root: Path) -> None:
    for engine in ENGINES.values():
        engine.check(root)


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """Return the nodes of this file, in memory: they are copied often."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Nodes(Path(folder))


@pytest.mark.parametrize("when", WHENS)
def test_errors_while_installing(nodes: Nodes, when: When) -> None:
    """An error of the disk at any call of install leaves the node as it was, to the byte."""
    assert nodes.calls > 100
    for at in range(nodes.calls):
        root = nodes.copy(nodes.bare)
        # Once all is done a failure of the last calls, which tidy up, changes nothing.
        with faults.meeting(faults.Fault(at, when, faults.error)), suppress(CgpuError, OSError):
            installer(root).install(DAEMON)
        found = snapshot(root)
        assert found == nodes.before or settled(root) == nodes.after, f"call {at}"


@pytest.mark.parametrize("then", THENS)
def test_killed_while_installing(nodes: Nodes, then: str) -> None:
    """After kill -9 at any call of install settings are valid, and the next command ends in a good state."""
    for at in range(nodes.calls):
        root = nodes.copy(nodes.bare)
        assert faults.in_child(lambda root=root: installer(root).install(DAEMON), at)  # type: ignore[misc]
        check_settings(root)
        again(root, then)
        if then == "install":
            assert settled(root) == nodes.after, f"call {at}"
            installer(root).uninstall(None)
        elif then == "recover" and journal.load(root) is not None:
            assert settled(root) == nodes.after, f"call {at}"
            continue
        assert snapshot(root) == nodes.before, f"call {at}"


@pytest.mark.parametrize("then", THENS)
def test_killed_while_uninstalling(nodes: Nodes, then: str) -> None:
    """The same for uninstall: the next command finishes it, or installs anew."""
    for at in count():
        root = nodes.copy(nodes.installed)
        if not faults.in_child(lambda root=root: installer(root).uninstall(None), at):  # type: ignore[misc]
            break
        check_settings(root)
        again(root, then)
        if then == "install" or (then == "recover" and journal.load(root) is not None):
            assert settled(root) == nodes.after, f"call {at}"
        else:
            assert snapshot(root) == nodes.before, f"call {at}"
    assert at > 50


def again(root: Path, then: str) -> None:
    work: dict[str, Callable[[], object]] = {
        "install": lambda: installer(root).install(DAEMON),
        "recover": lambda: recover.repair(root, System(root), ENGINES),
        "uninstall": lambda: installer(root).uninstall(None),
    }
    work[then]()


@pytest.mark.parametrize("command", ["daemon-reload", "enable", "try-restart whale", "try-restart crate"])
def test_commands_that_fail(nodes: Nodes, command: str) -> None:
    """A command that fails while installing leaves the node as it was, and the line says what it printed."""
    root = nodes.copy(nodes.bare)
    with pytest.raises(CgpuError, match=f"systemctl {command}.* does not work today"):
        installer(root, System(root, command)).install(DAEMON)
    assert snapshot(root) == nodes.before
