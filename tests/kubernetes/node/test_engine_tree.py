# SPDX-License-Identifier: Apache-2.0
"""The engine's tree by way of the control socket, through deaths and returns of the daemon."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cgpu import paths
from cgpu.client.tree import EngineDownError
from cgpu.errors import CgpuError
from cgpu.kmod.daemon import control
from cgpu.kubernetes.node.engine_tree import EngineTree


class Daemon:
    """A control socket, which passes a folder as the tree; each start has another one."""

    def __init__(self, path: str, folder: Path, commands: tuple[str, ...] = ("tree",)) -> None:
        self._folder = folder
        self._ended = False
        self._sock = control.ControlSocket(path, dict.fromkeys(commands, self._tree))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _tree(self, _request: dict[str, object]) -> dict[str, object]:
        return {control.PASSED: os.open(self._folder, os.O_PATH | os.O_DIRECTORY)}

    def _serve(self) -> None:
        self._sock.sock.settimeout(0.1)
        while not self._ended:
            self._sock.handle()

    def end(self) -> None:
        """End as a daemon does: nothing of its tree answers any more."""
        shutil.rmtree(self._folder)
        self._ended = True
        self._thread.join(10)
        self._sock.close()


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The path of the control socket, on a machine without the module."""
    found = f"/tmp/cgpu-test-{os.getpid()}.sock"
    monkeypatch.setattr(paths, "CONTROL_SOCKET", found)
    monkeypatch.setattr(paths, "TREE_MODULE", str(tmp_path / "proc"))
    yield found
    Path(found).unlink(missing_ok=True)


def tree_in(folder: Path, policy: str) -> Path:
    (folder / "0").mkdir(parents=True)
    (folder / "version").touch()
    (folder / "0/policy").write_text(f"{policy}\n")
    return folder


@pytest.mark.root
def test_each_daemon_has_its_own(path: str, tmp_path: Path) -> None:
    """Without a daemon the engine is down; whichever comes is found, and descriptors do not pile up."""
    tree = EngineTree()
    with pytest.raises(EngineDownError, match=r"^the engine is not running on this node, .*: cgpu status$"):
        tree.read_int("0", "policy")
    before = len(os.listdir("/proc/self/fd"))
    for number in ("1", "2"):
        daemon = Daemon(path, tree_in(tmp_path / number, number))
        assert tree.read("0", "policy") == number
        assert tree.read("0", "policy") == number
        daemon.end()
        with pytest.raises(EngineDownError):
            tree.read("0", "policy")
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.root
def test_a_node_that_is_drained(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While uninstall looks for slices none is reserved: it marks the folder that the agent sees.

    Where the module is loaded its tree counts.
    """
    monkeypatch.setattr(paths, "DRAINING_HERE", str(tmp_path / "draining"))
    tree_in(tmp_path / "proc", "1")
    (tmp_path / "proc/inst_ctl").touch()
    tree = EngineTree()
    assert tree.read_int("0", "policy") == 1
    (tmp_path / "draining").touch()
    with pytest.raises(CgpuError, match=r"no slices are given out while OpenCGPU is removed"):
        tree.reserve("s", (0, 1, 1, 0))
    (tmp_path / "draining").unlink()
    tree.reserve("s", (0, 1, 1, 0))
    assert (tmp_path / "proc/inst_ctl").read_text() == "reserve id=s gpu=0:1:1:0"


@pytest.mark.root
def test_an_older_daemon(path: str, tmp_path: Path) -> None:
    """A daemon that does not know the command is named, and the command that helps."""
    daemon = Daemon(path, tree_in(tmp_path / "old", "1"), ("status",))
    with pytest.raises(CgpuError, match=r"passes no descriptor: .*no such command"):
        EngineTree().read("0", "policy")
    daemon.end()
