# SPDX-License-Identifier: Apache-2.0
"""A command that is killed, or meets a broken disk, at any point: the next one ends as an unbroken one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from cgpu.errors import CgpuError
from cgpu.install.store import Store
from tests.install import faults
from tests.install.engines import ENGINES
from tests.install.support import DAEMON, installer, make_node, snapshot

Fail = Callable[[Callable[[], object], int], None]


class Nodes:
    """Copies of one node, each for one fault. after: of it with all installed, without the record."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = 0
        self.bare = make_node(folder / "bare")
        self.before = snapshot(self.bare)
        self.installed = self.copy(self.bare).rename(folder / "installed")
        self.calls = {"install": faults.count(partial(run, self.installed, "install"))}
        self.after = settled(self.installed)
        self.calls["uninstall"] = faults.count(partial(run, self.copy(self.installed), "uninstall"))

    def copy(self, source: Path) -> Path:
        shutil.rmtree(self.folder / str(self.number), ignore_errors=True)
        self.number += 1
        target = self.folder / str(self.number)
        shutil.copytree(source, target, symlinks=True)
        hard = target / "etc/storage/hosts.other"
        hard.unlink()
        hard.hardlink_to(target / "etc/hosts")
        for path in source.rglob("*"):
            if not path.is_symlink():
                shutil.chown(target / path.relative_to(source), path.stat().st_uid, path.stat().st_gid)
        return target


def run(root: Path, command: str) -> None:
    if command == "install":
        installer(root).install(DAEMON)
    else:
        installer(root).uninstall(None)


def settled(root: Path) -> dict[str, object]:
    """Return names and contents; the record apart, which names times."""
    record = "var/lib/cgpu/install"
    return {
        name: (entry[0], entry[4]) for name, entry in snapshot(root).items() if not name.startswith(record)
    }


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """Return the nodes of this file, in memory: they are copied often."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Nodes(Path(folder))


def kill(work: Callable[[], object], at: int) -> None:
    """Do the work in a process that SIGKILL ends behind a call that changes files."""
    assert faults.in_child(work, at)


def break_disk(when: faults.When, work: Callable[[], object], at: int) -> None:
    """Do the work with an error of the disk at such a call."""
    with faults.meeting(faults.Fault(at, when, faults.error)), suppress(CgpuError, OSError):
        work()


FAILS: dict[str, Fail] = {
    "killed": kill,
    "error-before": partial(break_disk, "before"),
    "error-behind": partial(break_disk, "behind"),
}


@pytest.mark.parametrize(
    ("fail", "begun", "again"),
    [
        ("killed", "install", "install"),
        ("killed", "install", "uninstall"),
        ("killed", "uninstall", "uninstall"),
        ("killed", "uninstall", "install"),
        ("error-before", "install", "install"),
        ("error-behind", "install", "uninstall"),
        ("error-before", "uninstall", "uninstall"),
        ("error-behind", "uninstall", "install"),
    ],
)
def test_every_call(nodes: Nodes, fail: str, begun: str, again: str) -> None:
    """A command that ends at any of its calls leaves valid settings, and the next command ends well."""
    source = nodes.bare if begun == "install" else nodes.installed
    assert nodes.calls[begun] > 80
    for at in range(nodes.calls[begun]):
        root = nodes.copy(source)
        FAILS[fail](partial(run, root, begun), at)
        for engine in ENGINES.values():
            engine.check(root)
        run(root, again)
        if again == "install":
            assert settled(root) == nodes.after, f"call {at}"
            assert Store.load(root).command == ""
            run(root, "uninstall")
        assert snapshot(root) == nodes.before, f"call {at}"
