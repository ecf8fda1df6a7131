# SPDX-License-Identifier: Apache-2.0
"""Place of a slice's cgroup."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.errors import CgpuError
from cgpu.run.cgroup import Hierarchy, find, parent

UNIFIED = "31 23 0:26 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
OLD = """\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
33 31 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
34 31 0:31 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids
35 31 0:32 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
"""
HYBRID = "36 31 0:33 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
BESIDE = "/sys/fs/cgroup/unified /user.slice/session-3.scope"
OLD_GROUPS = """\
5:name=systemd:/user.slice
4:pids:/user.slice/a
3:memory:/
2:cpu,cpuacct:/
0::/user.slice/session-3.scope
"""


def places(cgroups: str, mountinfo: str) -> list[str]:
    return [f"{one.mount} {one.own}" for one in find(cgroups, mountinfo)]


@pytest.mark.parametrize(
    ("cgroups", "mountinfo", "found"),
    [
        ("0::/user.slice/session-3.scope\n", UNIFIED, ["/sys/fs/cgroup /user.slice/session-3.scope"]),
        # Hierarchies of version 1 that the engines look at; version 2 is not mounted there.
        (OLD_GROUPS, OLD, ["/sys/fs/cgroup/pids /user.slice/a", "/sys/fs/cgroup/memory /"]),
        (OLD_GROUPS, OLD + HYBRID, ["/sys/fs/cgroup/pids /user.slice/a", "/sys/fs/cgroup/memory /", BESIDE]),
    ],
    ids=["version 2", "version 1", "both"],
)
def test_hierarchies(cgroups: str, mountinfo: str, found: list[str]) -> None:
    """The hierarchies that the engines look at, each with the caller's own group."""
    assert places(cgroups, mountinfo) == found


def test_mount_of_a_part() -> None:
    """A mount of a part of a hierarchy is understood, and one that hides the caller is refused."""
    part = UNIFIED.replace(" / /sys", " /box\\040one /sys")
    assert places("0::/box one/app\n", part) == ["/sys/fs/cgroup /app"]
    assert places("0::/box one/app\n", "30 1 0:26 /other /mnt rw - cgroup2 cgroup2 rw\n" + part) == [
        "/sys/fs/cgroup /app"
    ]
    for outside in ("/", "/other", "/box one/../other", "/../box one"):
        with pytest.raises(CgpuError, match="expected a place where both can be seen"):
            find(f"0::{outside}\n", part)


@pytest.mark.parametrize("end", ["\f", "\x85", "\u2028", "\r"])
def test_group_of_any_name(end: str) -> None:
    """A user who may make groups can give one any name but with a line's end: it names no other group."""
    group = f"/user.slice/x{end}0::/system.slice/docker-1.scope"
    assert places(f"0::{group}\n", UNIFIED) == [f"/sys/fs/cgroup {group}"]


@pytest.mark.parametrize("mountinfo", ["", OLD.splitlines()[0] + "\n", UNIFIED.replace("cgroup2", "tmpfs")])
def test_none(mountinfo: str) -> None:
    """Without a hierarchy there is one line."""
    with pytest.raises(CgpuError, match="no cgroup hierarchy is mounted; expected version 2"):
        find("0::/\n", mountinfo)


@given(st.text(max_size=60), st.text(max_size=120))
def test_any_text(cgroups: str, mountinfo: str) -> None:
    """Texts of any form give places or one line."""
    with contextlib.suppress(CgpuError):
        assert find(cgroups, mountinfo) != []


def make(path: Path, mode: int = 0o755, owner: int = 0) -> Path:
    """Make a directory that looks like a group."""
    path.mkdir()
    procs = path / "cgroup.procs"
    procs.touch()
    procs.chmod(0o644)
    path.chmod(mode)
    for one in (path, procs):
        os.chown(one, owner, 0)
    return path


@pytest.mark.root
@pytest.mark.parametrize(("mode", "owner"), [(0o755, 65534), (0o775, 0), (0o777, 0)])
def test_above_what_users_may_write(tmp_path: Path, mode: int, owner: int) -> None:
    """The group is made above the first one on the way where another than root may write."""
    top = make(tmp_path / "top")
    make(make(make(top / "a") / "b", mode, owner) / "c")
    assert parent(Hierarchy(top, PurePosixPath("/a/b/c"))) == top / "a"
    assert parent(Hierarchy(top, PurePosixPath("/a"))) == top / "a"
    assert parent(Hierarchy(top, PurePosixPath("/"))) == top


@pytest.mark.root
@pytest.mark.parametrize("name", ["cgroup.procs", "tasks"])
def test_files_count_too(tmp_path: Path, name: str) -> None:
    """A group whose members a user may change is one that a user may write to."""
    top = make(tmp_path / "top")
    inner = make(top / "a")
    (inner / name).touch()
    os.chown(inner / name, 65534, 0)
    assert parent(Hierarchy(top, PurePosixPath("/a"))) == top


@pytest.mark.root
def test_no_safe_place(tmp_path: Path) -> None:
    """A hierarchy whose first group is not root's alone, or that has none, is refused."""
    with pytest.raises(CgpuError, match="not only root may write there"):
        parent(Hierarchy(make(tmp_path / "open", 0o777), PurePosixPath("/")))
    with pytest.raises(CgpuError, match="cannot be looked at"):
        parent(Hierarchy(tmp_path, PurePosixPath("/")))
