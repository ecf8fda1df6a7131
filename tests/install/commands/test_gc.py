# SPDX-License-Identifier: Apache-2.0
"""Registrations that `cgpu gc` removes: by processes first, then by the engines' lists."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.client.tree import Tree
from cgpu.errors import CgpuError
from cgpu.install.commands import gc
from cgpu.install.commands.gc import judge
from cgpu.install.node.snapshot import Slice
from cgpu.runtime_config.engines import containerd, docker, podman
from cgpu.runtime_config.engines.engine import Ended, Listing, by_state
from tests.client.support import PlainTree
from tests.runtime_config.support import program

V2 = "30 1 0:26 / {mount} rw - cgroup2 cgroup2 rw\n"


def registered(cgroup: str = "/group/c1") -> Slice:
    return Slice("c1", {"owner": f"c1 {cgroup}"})


@given(
    st.dictionaries(
        st.sampled_from(["docker", "podman"]), st.dictionaries(st.sampled_from(["c1", "c2"]), st.booleans())
    ),
)
def test_one_with_processes_never_goes(said: dict[str, dict[str, bool]]) -> None:
    """Living processes keep their registration, whatever the engines say."""
    assert not judge(registered(), said, alive=True).goes


@pytest.mark.parametrize(
    ("said", "goes"),
    [
        ({}, True),
        ({"docker": {"c1": True}}, True),
        ({"docker": {"c1": False}}, False),
        ({"docker": {"c1": True}, "podman": {"c1": False}}, False),
    ],
)
def test_verdicts(said: dict[str, dict[str, bool]], *, goes: bool) -> None:
    """Without processes: one that runs by an engine's word stays."""
    assert judge(registered(), said, alive=False).goes is goes


@pytest.mark.parametrize("cgroup", ["/group/c1", "pids:/group/c1", "name=systemd:/group/c1"])
def test_groups_of_any_hierarchy(cgroup: str) -> None:
    """The engine names a cgroup of version 1 with its controller; processes are found by the path."""
    assert gc.is_alive(registered(cgroup), "", frozenset({"/group/c1"}))
    assert not gc.is_alive(registered(cgroup), "", frozenset({"/group/c2"}))


def test_a_group_that_is_not_known() -> None:
    """A container of unknown processes counts as alive."""
    assert gc.is_alive(registered("-"), "", frozenset())


def test_alive_by_its_cgroup(tmp_path: Path) -> None:
    """A process anywhere below the cgroup counts, by the list of processes or by the group's own files."""
    mountinfo = V2.format(mount=tmp_path)
    one = registered()
    assert gc.is_alive(one, mountinfo, frozenset({"/group/c1/init.scope"}))
    assert not gc.is_alive(one, mountinfo, frozenset({"/group/c10", "/group"}))
    inner = tmp_path / "group" / "c1" / "inner"
    inner.mkdir(parents=True)
    (inner.parent / "cgroup.procs").write_text("")
    (inner / "cgroup.procs").write_text("")
    assert not gc.is_alive(one, mountinfo, frozenset())
    (inner / "cgroup.procs").write_text("17\n")
    assert gc.is_alive(one, mountinfo, frozenset())


def test_what_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registration without processes is removed once all engines were asked; --dry-run removes none."""
    tree = PlainTree(tmp_path).build(1000)
    tree.write({"engine": "cgpu_km 0.1.0", "0/c1/owner": "c1 /gone"})
    monkeypatch.setattr(gc, "check_view", lambda _: None)

    def fails() -> Ended:
        raise CgpuError("does not answer")

    asked = [Listing("docker", lambda: {"c1": True}), Listing("podman", fails)]
    client = Tree(str(tree.path))
    dry = gc.collect(client, dry_run=True, asked=asked)
    assert (dry.removed, tree.inst_ctl.read_text()) == (dry.judged, "")
    assert dry.silent == ("podman: does not answer",)
    assert gc.collect(client, dry_run=False, asked=asked).removed == dry.judged
    assert tree.inst_ctl.read_text() == "destroy id=c1"


def test_more_groups_than_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container with more groups than the command reads counts as alive."""
    (tmp_path / "group" / "c1" / "a").mkdir(parents=True)
    for folder in ("c1", "c1/a"):
        (tmp_path / "group" / folder / "cgroup.procs").write_text("")
    monkeypatch.setattr(gc, "MAX_GROUPS", 1)
    assert gc.is_alive(registered(), V2.format(mount=tmp_path), frozenset())


@pytest.mark.parametrize("group", ["/../outside", "/group/../.."])
def test_groups_do_not_lead_outside(group: str, tmp_path: Path) -> None:
    """A cgroup with steps upwards is looked for nowhere."""
    assert list(gc.places(group, V2.format(mount=tmp_path))) == []


def test_view() -> None:
    """The command asks to be run on the host where it sees other processes than the engine."""
    gc.check_view({"pid": os.getpid()})
    with pytest.raises(CgpuError, match="on the host"):
        gc.check_view({"pid": 0})
    with pytest.raises(CgpuError, match="on the host"):
        gc.check_view({})


@pytest.mark.root
def test_view_of_another_namespace() -> None:
    """In another cgroup namespace than the engine's nothing is judged."""
    script = f"from cgpu.install.commands.gc import check_view; check_view({{'pid': {os.getpid()}}})"
    words = ["unshare", "--cgroup", sys.executable, "-c", script]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "another cgroup namespace: run it on the host" in done.stderr


def test_lists() -> None:
    """Each engine's list says who has ended; a word that is not known may mean a process."""
    table = ["TASK    PID    STATUS    ", "c1    17    RUNNING", "c2    0    STOPPED", "odd line"]
    assert containerd.ended_tasks(table) == {"c1": False, "c2": True}
    rows = [{"Id": "a", "State": "exited"}, {"Id": "b", "State": "running"}, {"Id": "c"}, {"x": 1}, 7]
    assert by_state(rows, "Id", "State") == {"a": True, "b": False, "c": False}
    assert by_state({"no": "list"}, "Id", "State") == {}


@given(st.lists(st.text(max_size=60), max_size=8))
def test_any_table(lines: list[str]) -> None:
    """A table of any form gives no container that it does not name."""
    words = {word for line in lines for word in line.split()}
    assert set(containerd.ended_tasks(lines)) <= words


def test_engine_that_fails(tmp_path: Path) -> None:
    """An engine that does not answer is an error, not an empty list."""
    for script, why in (("echo '[]'\nexit 1", "podman"), ("echo no json", "JSON")):
        with pytest.raises(CgpuError, match=why):
            podman.ended([str(program(tmp_path / "podman", script))])
    with pytest.raises(CgpuError, match="does not answer"):
        docker.ended(tmp_path / "nothing.sock")
