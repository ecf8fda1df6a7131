# SPDX-License-Identifier: Apache-2.0
"""The view of users who are not root: published files, and their cgpu-smi."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cgpu import paths
from cgpu.config import effective
from cgpu.errors import CgpuError
from cgpu.smi import main as smi
from cgpu.smi import publish
from cgpu.smi.owners import MOST_USERS, names_one, users

from .conftest import TRAINER

ALICE, BOB = 41001, 41002
GROUP = f"/sys/fs/cgroup/{TRAINER}"


class EndedError(Exception):
    """Ends a publisher at its next pause."""


@pytest.fixture
def folder() -> Path:
    return Path(paths.PUBLISHED)


def configured(monkeypatch: pytest.MonkeyPatch, tree: Path, shown: str) -> None:
    config = effective.Effective(tree=str(tree), show_slices=shown)
    monkeypatch.setattr(effective, "load", lambda: config)
    monkeypatch.setattr(publish, "users", lambda groups: {GROUP: frozenset({ALICE, 0})} if groups else {})


def round_of(folder: Path, look: Callable[[], None]) -> None:
    """Publish once, look at what is there meanwhile, and end it."""

    def pause(_: float) -> None:
        look()
        raise EndedError

    with pytest.raises(EndedError):
        publish.publish(folder, pause)


def in_child(uid: int, work: Callable[[], int]) -> int:
    """Do work as a user in a process of its own; return its status."""
    child = os.fork()
    if child == 0:
        # The files' group is root's: a user who had stayed in it would be refused for that alone.
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
        os._exit(work())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def as_user(uid: int, words: Sequence[str], capfd: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Run cgpu-smi as a user; return its status, and its output."""
    capfd.readouterr()
    status = in_child(uid, lambda: smi.main(words))
    printed = capfd.readouterr()
    return status, printed.out, printed.err


def opens(uid: int, path: Path, flags: int) -> bool:
    """Return whether a user can open a file by hand, after having tried to change its mode."""

    def work() -> int:
        try:
            with contextlib.suppress(PermissionError):
                path.chmod(0o666)
            os.close(os.open(path, flags))
        except OSError:
            return 1
        return 0

    return in_child(uid, work) == 0


@pytest.mark.root
def test_own(
    tree: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Each user sees the cards and the own containers, and can read no other user's file by hand."""
    configured(monkeypatch, tree, "own")
    (tree / "0" / "web" / "meminfo").write_text("Free: 6336540672\nPID: 4713 Mem: 4096\n")
    private = ("web", "4713", "13631488000")

    def look() -> None:
        status, alices, _ = as_user(ALICE, (), capfd)
        assert status == 0
        assert "|   0  0123456789ab " in alices
        assert "|      trainer " in alices
        assert "web" not in alices
        assert not any(word in (folder / f"{ALICE}.json").read_text() for word in private)
        assert "|      12086MiB              |       N/A / 15109MiB |   N/A " in alices
        assert " 50% |" in alices  # the share is that among all containers
        assert "Engine: cgpud 0.1.0 " in alices
        status, bobs, _ = as_user(BOB, (), capfd)
        assert status == 0
        assert "trainer" not in bobs
        assert "No slices of yours found" in bobs
        assert "|      12086MiB " in bobs
        mine = folder / f"{ALICE}.json"
        assert [opens(uid, mine, os.O_RDONLY) for uid in (ALICE, BOB)] == [True, False]
        assert not opens(ALICE, folder, os.O_RDONLY)
        # An owner of the file could fill the memory of the machine's /run.
        assert (mine.stat().st_uid, opens(ALICE, mine, os.O_WRONLY)) == (0, False)
        assert TRAINER not in (folder / "everyone.json").read_text()
        assert not (folder / "0.json").exists()

    round_of(folder, look)
    assert list(folder.iterdir()) == []


@pytest.mark.root
def test_all(
    tree: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With `all` every user sees what root sees, in each form."""
    configured(monkeypatch, tree, "all")

    def look() -> None:
        _, table, _ = as_user(BOB, (), capfd)
        assert "trainer" in table
        assert "|   0  web " in table
        _, text, _ = as_user(BOB, ("--json", "-i", "0"), capfd)
        (gpu,) = json.loads(text)["gpus"]
        assert [one["id"] for one in gpu["containers"]] == [TRAINER, "web"]
        assert gpu["containers"][0]["pids"] == [4711, 4712]
        assert gpu["containers"][0]["refused"]["limit"] == 3
        assert gpu["containers"][0]["processes"][0]["memory_used_bytes"] == 512 << 20
        _, rows, _ = as_user(BOB, ("--csv",), capfd)
        assert rows.count("\n") == 3

    round_of(folder, look)


@pytest.mark.root
def test_nothing(
    tree: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """By default the publisher ends: a user is told what to do. Without an engine it waits for one."""
    assert effective.Effective().show_slices == "root"

    def look() -> None:
        status, out, error = as_user(ALICE, (), capfd)
        assert (status, out) == (1, "")
        assert error.startswith("cgpu-smi: only root sees the slices of this node: sudo cgpu-smi;")

    configured(monkeypatch, tree, "root")
    monkeypatch.setattr("signal.signal", lambda *_: None)
    assert smi.main(["--publish"]) == 0
    assert capfd.readouterr().out == f"cgpu-smi: {publish.NOTHING}\n"
    look()
    configured(monkeypatch, tree / "none", "all")
    round_of(folder, look)


@pytest.mark.root
def test_a_change_takes_files_away(tree: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that a user may not see any more goes in the next round.

    The publisher removes everything and ends when nothing is to be seen.
    """
    configured(monkeypatch, tree, "own")
    rounds: list[set[str]] = []

    def pause(_: float) -> None:
        rounds.append({path.name for path in folder.iterdir()})
        configured(monkeypatch, tree, ("all", "root")[len(rounds) - 1])

    publish.publish(folder, pause)
    assert rounds == [{f"{ALICE}.json", "everyone.json"}, {"everyone.json"}]
    assert list(folder.iterdir()) == []


@pytest.mark.root
def test_old_and_foreign_files(tree: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a killed publisher are not shown as today's, nor those of another release."""
    configured(monkeypatch, tree, "all")

    def look() -> None:
        everyone = folder / "everyone.json"
        document = json.loads(everyone.read_text())
        assert publish.published(folder) == publish.published(folder)
        assert publish.age(folder) == pytest.approx(0, abs=publish.OLD_S)
        for changed, words in (
            ({"at": document["at"] - 60}, "s old; root starts what writes it again"),
            ({"cards": [{"index": 0, "later": 1}]}, "another release"),
            ({"at": None}, "another release"),
        ):
            everyone.write_text(json.dumps({**document, **changed}))
            with pytest.raises(CgpuError, match=words):
                publish.published(folder)

    round_of(folder, look)


def test_only_root_publishes(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Another user cannot, and the command takes no other option."""
    monkeypatch.setattr(os, "geteuid", lambda: ALICE)
    assert smi.main(["--publish"]) == 1
    assert capsys.readouterr().err == "cgpu-smi: only root publishes slices: sudo cgpu-smi --publish\n"
    for words in (["--publish", "-l", "1"], ["--publish", "-i", "0"], ["--publish", "--json"]):
        with pytest.raises(SystemExit) as ended:
            smi.main(words)
        assert ended.value.code == 2


def process(proc: Path, pid: int, group: str, uid: int, name: str = "x") -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "cgroup").write_text(group, newline="")
    status = f"Name:\t{name}\nUid:\t{uid}\t0\t0\t0\nGid:\t0\t0\t0\t0\n"
    (proc / str(pid) / "status").write_text(status, newline="")


@pytest.mark.parametrize(
    ("name", "cgroups", "belongs"),
    [
        ("plain", "0::/c1/below\n", True),
        ("a\rUid:", "0::/c1\n", True),
        ("a\x0bUid: 5", "0::/c1\n", True),
        ("plain", "0::/mine/x\r0::/c1\n", False),
        ("plain", "0::/mine/x\u20280::/c1\n", False),
    ],
)
def test_names_of_processes_and_groups_are_anybodys(
    tmp_path: Path, name: str, cgroups: str, belongs: bool
) -> None:
    """Such a name neither makes a process a member of another group, nor ends the search of processes."""
    process(tmp_path, 7, cgroups, ALICE, name)
    assert users(frozenset({"/c1"}), str(tmp_path)) == {"/c1": frozenset({ALICE} if belongs else ())}


def test_users(tmp_path: Path) -> None:
    """A process counts for its real user, in its group and those above; one that cannot be read for none."""
    process(tmp_path, 1, "0::/\n", 1)
    process(tmp_path, 2, "0::/box/a\n", ALICE)
    process(tmp_path, 3, "12:cpu,pids:/box/b\n0::/box/a/inner\n", BOB)
    process(tmp_path, 4, "0::/box/ab\n", 4)
    process(tmp_path, 5, "broken\n", 5)
    (tmp_path / "6").mkdir()
    (tmp_path / "self").mkdir()
    asked = frozenset({"/box/a", "pids:/box/b", "cpu,pids:/box/b", "/box/none", "/", "-", "pids:/"})
    assert users(asked, str(tmp_path)) == {
        "/box/a": {ALICE, BOB},
        "pids:/box/b": {BOB},
        "cpu,pids:/box/b": {BOB},
        "/box/none": frozenset(),
    }
    assert users(frozenset({"/"}), "/nowhere") == {}
    assert [names_one(text) for text in ("/a", "pids:/a", "", "-", "/", "pids:/", "a")] == [
        True, True, False, False, False, False, False,
    ]  # fmt: skip


def test_many_users(tmp_path: Path) -> None:
    """A container whose processes have ever other users does not have ever more files written."""
    for pid in range(1, 60):
        process(tmp_path, pid, "0::/box/a\n", 2000 - pid)
    assert users(frozenset({"/box/a"}), str(tmp_path)) == {"/box/a": set(range(1941, 1941 + MOST_USERS))}


def test_this_process() -> None:
    """The groups of a living process are found as the kernel names them."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    named = [f"{name}:{path}" if name else path for _, name, path in (line.split(":", 2) for line in lines)]
    for group in filter(names_one, named):
        assert os.getuid() in users(frozenset({group}))[group]
