# SPDX-License-Identifier: Apache-2.0
"""Who goes and who stays: by processes first, by the engines' lists then."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.errors import CgpuError
from cgpu.install.commands import gc
from cgpu.install.commands.gc import judge
from cgpu.install.node.snapshot import Slice
from cgpu.runtime_config.engines import containerd, docker, podman
from cgpu.runtime_config.engines.engine import by_state
from tests.runtime_config.support import program

LONG = "4a" * 32
V2 = "30 1 0:26 / {mount} rw - cgroup2 cgroup2 rw\n"


def registered(name: str = "c1", cgroup: str = "/group/c1") -> Slice:
    return Slice(name, {"owner": f"{name} {cgroup}"})


@given(
    st.dictionaries(
        st.sampled_from(["docker", "podman"]), st.dictionaries(st.sampled_from(["c1", "c2"]), st.booleans())
    ),
    st.lists(st.just("docker: does not answer"), max_size=1),
    st.sampled_from(["/group/c1", "-"]),
)
def test_one_with_processes_never_goes(
    said: dict[str, dict[str, bool]], silent: list[str], cgroup: str
) -> None:
    """Whatever the engines say: processes that live keep their registration."""
    assert not judge(registered(cgroup=cgroup), said, silent, alive=True).goes


@pytest.mark.parametrize(
    ("said", "silent", "cgroup", "goes"),
    [
        ({}, [], "/group/c1", True),
        ({}, [], "-", True),
        ({"docker": {"c1": True}}, [], "-", True),
        ({"docker": {"c1": False}}, [], "-", False),
        ({"docker": {"c1": False}}, [], "/group/c1", False),
        ({"docker": {"c1": True}, "podman": {"c1": False}}, [], "-", False),
        ({}, ["docker: does not answer"], "-", False),
        ({}, ["docker: does not answer"], "/group/c1", True),
    ],
)
def test_verdicts(said: dict[str, dict[str, bool]], silent: list[str], cgroup: str, *, goes: bool) -> None:
    """Without processes: one that runs by an engine's word stays, and one that a silent engine may have."""
    assert judge(registered(cgroup=cgroup), said, silent, alive=False).goes is goes


def test_short_names() -> None:
    """The old form knows the first 12 characters: all containers of that beginning decide."""
    short = registered(LONG[:12], "-")
    assert not judge(short, {"docker": {LONG: True, LONG[:12] + "0" * 52: False}}, [], alive=False).goes
    assert judge(short, {"docker": {LONG: True}}, [], alive=False).goes


@pytest.mark.parametrize(
    ("group", "its"),
    [
        (f"/docker/{LONG}", True),
        (f"/system.slice/docker-{LONG}.scope", True),
        (f"/kubepods/pod1/cri-containerd-{LONG}.scope/inside", True),
        (f"/machine.slice/libpod-{LONG}.scope/container", True),
        (f"/docker/{'4b' * 32}", False),
        (f"/docker/{LONG}x", False),
        ("/user.slice", False),
    ],
)
def test_named_after(group: str, *, its: bool) -> None:
    """A registration without a process is known by the name of a cgroup, as runtimes write it."""
    assert gc.is_named(group, registered(LONG[:12], "-")) is its
    assert gc.is_alive(registered(LONG[:12], "-"), "", frozenset({group})) is its


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


def test_more_groups_than_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not all of a container can be seen, it counts as alive."""
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
    """Who does not see what the engine sees is told to run on the host."""
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
