# SPDX-License-Identifier: Apache-2.0
"""The client of the tree, on plain files, and its errors when the engine refuses."""

from __future__ import annotations

import errno
import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from cgpu import paths
from cgpu.client.tree import CONTAINER_NODES, GPU_NODES, EngineDownError, Tree, check_id
from cgpu.config.effective import Effective
from cgpu.errors import CgpuError, show
from cgpu.process_identity import start_time
from cgpu.slice import ATTRIBUTES
from tests.client.support import CONTAINER, MIB, PlainTree, down, refuse_writes, uuid
from tests.refusal import refused

GRANTS = ((0, 6043 * MIB, 5, 0), (1, 100 * MIB, 1, 1))


def test_kind(tree: PlainTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kind of the engine is asked once, and an engine that has said it is there."""
    tree.write({"engine": "cgpud 0.1.0"})
    one = tree.client()
    assert one.kind() == "cgpud"
    monkeypatch.setattr(Tree, "is_up", lambda _: pytest.fail("it was asked again"))
    tree.write({"engine": "else 0.1.0"})
    assert one.kind() == "cgpud"
    one.await_restart(10)
    with refused(f"{tree.path}/engine: else: expected cgpud"):
        tree.client().kind()


def test_nodes(tree: PlainTree) -> None:
    """Nodes are read without their newline, and written whole; one without an end is not read to the end."""
    one = tree.client()
    assert one.read("version") == "0.1.0"
    assert one.read_int("0", "policy") == 1
    one.write("3", "0", "policy")
    # A plain file keeps what was behind; a node of the tree takes each write as its whole text.
    assert one.read("0", "policy") == "3"
    tree.directory("0/0123456789ab", memsize=5)
    assert one.containers(0) == ["0123456789ab"]
    (tree.path / "version").unlink()
    (tree.path / "version").symlink_to("/dev/zero")
    with refused(f"{tree.path}/version: ", "File too large"):
        one.read("version")


def test_register_and_destroy(tree: PlainTree) -> None:
    """A registration is one write of the long form; a removal names the whole id."""
    tree.client().register(CONTAINER, 4711, GRANTS)
    assert tree.inst_ctl.read_text() == (
        f"create id={CONTAINER} gpu=0:{6043 * MIB}:5:0 gpu=1:{100 * MIB}:1:1 pid=4711"
    )
    tree.inst_ctl.write_text("")
    tree.client().destroy(CONTAINER)
    assert tree.inst_ctl.read_text() == f"destroy id={CONTAINER}"


def test_half_a_write(tree: PlainTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write of which only a part was taken is taken back."""
    written: list[bytes] = []

    def half(fd: int, raw: bytes) -> int:
        written.append(raw)
        return len(raw) // 2

    monkeypatch.setattr("cgpu.client.tree.os.write", half)
    with refused(f"container {CONTAINER}: ", "only a part was taken"):
        tree.client().register(CONTAINER, 4711, GRANTS)
    assert written[-1] == f"destroy id={CONTAINER}".encode()


def test_too_many_grants(tree: PlainTree) -> None:
    """A request that does not fit into one write is refused before it is tried."""
    with refused("container 1", "its request takes ", " bytes, expected at most 4096"):
        tree.client().register("1", 1, GRANTS * 100)
    assert tree.inst_ctl.read_text() == ""


CALLS: list[tuple[str, Callable[[Tree], object]]] = [
    (f"container {CONTAINER}", lambda one: one.register(CONTAINER, 4711, GRANTS)),
    ("share one", lambda one: one.reserve("one", GRANTS[0])),
    ("share one", lambda one: one.release("one")),
]


@pytest.mark.parametrize(("subject", "call"), CALLS)
def test_reasons_of_refusals(
    tree: PlainTree, monkeypatch: pytest.MonkeyPatch, subject: str, call: Callable[[Tree], object]
) -> None:
    """The engine's line about a refused write is the message, or its errno where it gives none."""
    refuse_writes(monkeypatch, errno.ENOMEM)
    with pytest.raises(CgpuError) as caught:
        call(tree.client())
    assert str(caught.value) == f"{subject}: the engine at {tree.path} refused: Cannot allocate memory"
    tree.inst_ctl.write_text("GPU 0 has nothing left\nand more\n")
    with pytest.raises(CgpuError) as caught:
        call(tree.client())
    assert str(caught.value) == f"{subject}: GPU 0 has nothing left"
    tree.inst_ctl.write_bytes(b"x" * MIB)
    with pytest.raises(CgpuError) as caught:
        call(tree.client())
    assert len(str(caught.value)) == len(subject) + 2 + 512


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM])
@pytest.mark.parametrize("refused_call", ["open", "write"])
def test_who_may_register(
    tree: PlainTree, monkeypatch: pytest.MonkeyPatch, number: int, refused_call: str
) -> None:
    """A process that may not open or write inst_ctl is told who may."""
    refuse_writes(monkeypatch, number, refused_call)
    with refused(f"container {CONTAINER}: only root of the host may register containers"):
        tree.client().register(CONTAINER, 4711, GRANTS)


@pytest.mark.parametrize("left", ["nothing", "directory", "file"])
def test_engine_down(tmp_path: Path, left: str) -> None:
    """Without a tree, or with remains of one, no engine runs, and the line says how to start it."""
    path = tmp_path / "tree"
    if left != "nothing":
        path.mkdir() if left == "directory" else path.touch()
    tree = Tree(str(path))
    actions: list[Callable[[], object]] = [partial(tree.register, "a", 1, GRANTS), partial(tree.destroy, "a")]
    for action in actions if left == "directory" else [tree.gpus, *actions]:
        with pytest.raises(EngineDownError) as caught:
            action()
        assert str(caught.value) == down(path)


def test_dead_mount(tree: PlainTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount whose server died is an engine that does not run."""
    (tree.path / "version").unlink()
    refuse_writes(monkeypatch, errno.ENOTCONN, "open")
    with pytest.raises(EngineDownError):
        tree.client().register(CONTAINER, 1, GRANTS)


@pytest.mark.parametrize(
    ("code", "holder", "waits"),
    [
        (errno.ENOTCONN, None, True),
        (errno.ENOENT, None, False),
        (errno.ENOENT, "1 STARTED", True),
        # Another process has the number by now, or none has it.
        *((errno.ENOENT, holder, False) for holder in ("1 7", "1", "4194305 1", "")),
    ],
)
def test_no_engine_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, holder: str | None, waits: bool
) -> None:
    """The client waits a bounded time for a killed daemon's leavings, and for a keeper without a daemon."""
    slept: list[float] = []
    if holder is not None:
        (tmp_path / "lock").write_text(holder.replace("STARTED", str(start_time(1))) + "\n")
    monkeypatch.setattr(paths, "LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr("cgpu.client.tree.RESTART_S", 0.05)
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(Tree, "_is_abandoned", lambda _tree: code == errno.ENOTCONN)
    Tree(str(tmp_path / "tree")).await_restart(10)
    assert bool(slept) == waits


def test_no_engine_comes_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hook has half of its time left to say what is wrong."""
    slept: list[float] = []
    monkeypatch.setattr(Tree, "_is_abandoned", lambda _tree: True)
    monkeypatch.setattr(time, "sleep", slept.append)
    monkeypatch.setattr(time, "monotonic", lambda: sum(slept))
    Tree(str(tmp_path / "tree")).await_restart(1)
    assert 0.4 < sum(slept) < 0.6


def test_refresh(tree: PlainTree, tmp_path: Path) -> None:
    """The tree's default_memsize replaces the configured one, where there is one; it has to be a number."""
    config = Effective(default_memsize=5)
    tree.write({"default_memsize": 4096})
    assert tree.client().refresh(config).default_memsize == 4096
    assert Tree(str(tmp_path / "none")).refresh(config).default_memsize == 5
    tree.write({"default_memsize": -1})
    with refused(f"{tree.path}/default_memsize: -1: a whole number was expected"):
        tree.client().refresh(config)


FACTS = "uuid=GPU-1 memtotal=1 max_inst=20"
EXPECTED = "index, uuid, memtotal and max_inst were expected"
ODD = ["", "GPU-1", "uuid=GPU-1 memtotal=1", "memtotal=1 max_inst=20"]
ODD += [FACTS.replace("max_inst=20", f"max_inst={odd}") for odd in ("x", "2_0")]
ODD += [FACTS.replace("memtotal=1", "memtotal=-1")]
INDEXES = ["", "index= ", "index=-1 ", "index=0/1 ", "index=12345 ", "index=\u0663 "]


@pytest.mark.parametrize(
    "line", [*(f"index=0 {line}" for line in ODD), *(f"{index}{FACTS}" for index in INDEXES)]
)
def test_bad_facts(tree: PlainTree, line: str) -> None:
    """A GPU of which the engine does not say what is needed is named, with what it says."""
    tree.write({"gpus": line})
    with refused(f"{tree.path}/gpus: {show(line)}: {EXPECTED}"):
        tree.client().gpus()


def test_facts_in_one_read(tree: PlainTree) -> None:
    """One entry tells of all GPUs: nothing else is asked, and words that are not known are ignored."""
    lines = [f"index={index} new=1 uuid={uuid(index)} memtotal={MIB} max_inst=7" for index in (1, 9)]
    tree.write({"gpus": "\n".join(lines)})
    found = [(gpu.index, gpu.uuid, gpu.memtotal, gpu.max_inst) for gpu in tree.client().gpus()]
    assert found == [(1, uuid(1), MIB, 7), (9, uuid(9), MIB, 7)]
    assert tree.client().gpus()[0].name == "Tesla T4"
    (tree.path / "gpus").write_text("")
    assert tree.client().gpus() == []


def test_all_nodes_are_known() -> None:
    """The client tells containers from the nodes beside them, and knows a container's."""
    source = (Path(__file__).resolve().parents[2] / "kmod" / "core" / "tree" / "nodes.c").read_text()
    others = {one.name for one in ATTRIBUTES}
    levels = {"GPU": GPU_NODES, "CONTAINER": sorted({*CONTAINER_NODES} - others)}
    for level, names in levels.items():
        assert sorted(re.findall(rf'"(\w+)", CORE_LEVEL_{level},', source)) == sorted(names)


def test_ids() -> None:
    """Ids as docker, podman, ctr and runc give them are taken."""
    for container in ("a", "0", "web-1", "a_b.c+d", "x" * 127, CONTAINER):
        check_id(container)


@pytest.mark.parametrize(
    "bad", ["", ".", "..", "-a", "a b", "a\nb", "a/b", "a=b", "\u00e4", "a" * 128, "a\0", "a gpu=0:1"]
)
def test_bad_ids(bad: str, tree: PlainTree) -> None:
    """An id that could mean something else in the grammar or in a path is refused, and nothing written."""
    one = tree.client()
    for kind, call in (
        ("container", partial(one.register, bad, 1, GRANTS)),
        ("container", partial(one.destroy, bad)),
        ("share", partial(one.reserve, bad, GRANTS[0])),
        ("share", partial(one.release, bad)),
        ("share", partial(one.register, CONTAINER, 1, (), (), ["a", bad])),
    ):
        with refused(f"{kind} id {show(bad)}: expected 1 to 127 letters, digits and _ . + -"):
            call()
    assert tree.inst_ctl.read_text() == ""


def test_which_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configured tree comes first, then the module's, then the daemon's."""
    monkeypatch.setattr(paths, "TREE_MODULE", str(tmp_path))
    assert paths.tree("/x") == "/x"
    assert paths.tree(None) == paths.TREE_DAEMON
    (tmp_path / "version").touch()
    assert paths.tree(None) == str(tmp_path)
    assert paths.start_command(str(tmp_path)) == "modprobe cgpu_km"
