# SPDX-License-Identifier: Apache-2.0
"""The client's side of reservations, on plain files, and what it says when the engine refuses."""

from __future__ import annotations

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.client.reservations import Reservation, parse, places, promised
from cgpu.client.tree import Tree
from cgpu.errors import CgpuError
from tests.client.support import CONTAINER, MIB, PlainTree
from tests.refusal import refused

ONE = "6f1c0a52-93d1-4c1e-8f6a-000000000001"
TWO = "6f1c0a52-93d1-4c1e-8f6a-000000000002"
GRANT = (1, 6043 * MIB, 2, 1)
RESERVED = {
    "0/reserved": f"{ONE} {1024 * MIB} 2 0 {CONTAINER}\n{TWO} {2048 * MIB} 1 1 -",
    "1/reserved": "",
}
SHARE_IDS = st.from_regex(r"[A-Za-z0-9_.+][A-Za-z0-9_.+-]{0,40}", fullmatch=True)
RESERVATIONS = st.builds(
    Reservation,
    SHARE_IDS,
    st.integers(1, 10**15 - 1),
    st.integers(0, 25),
    st.integers(0, 1),
    st.none() | SHARE_IDS,
)


def client(tree: PlainTree) -> Tree:
    return Tree(str(tree.path))


def fail(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Have the engine answer each write with an errno."""

    def write(fd: int, raw: bytes) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("cgpu.client.tree.os.write", write)


def test_reserve(tree: PlainTree) -> None:
    """A reservation is one write of the long form."""
    client(tree).reserve(ONE, GRANT)
    assert tree.inst_ctl.read_text() == f"reserve id={ONE} gpu=1:{6043 * MIB}:2:1"


def test_release(tree: PlainTree) -> None:
    """So is its end."""
    client(tree).release(ONE)
    assert tree.inst_ctl.read_text() == f"release id={ONE}"


def test_register_by_shares(tree: PlainTree) -> None:
    """A container by shares names them in place of cards."""
    client(tree).register(CONTAINER, 4711, (), (), [ONE, TWO])
    assert tree.inst_ctl.read_text() == f"create id={CONTAINER} pid=4711 share={ONE} share={TWO}"


def test_reserved(tree: PlainTree) -> None:
    """What is reserved is read line by line; a card without reservations has an empty entry."""
    (tree.path / "1").mkdir(exist_ok=True)
    (tree.path / "1/reserved").write_text("")
    (tree.path / "0/reserved").write_text(f"{ONE} 5 2 0 {CONTAINER}\n{TWO} 7 0 1 -\n")
    assert client(tree).reserved(0) == (
        Reservation(ONE, 5, 2, 0, CONTAINER),
        Reservation(TWO, 7, 0, 1, None),
    )
    assert client(tree).reserved(1) == ()


@pytest.mark.parametrize(
    "share", ["", ".", "..", "-a", "a b", "a\nb", "a/b", "a=b", "\u00e4", "a" * 128, "a gpu=0:1"]
)
def test_bad_ids(share: str, tree: PlainTree) -> None:
    """An id that no share can have never comes to the engine."""
    one = client(tree)
    line = r"^share id .*: expected 1 to 127 letters, digits and _ \. \+ -$"
    with pytest.raises(CgpuError, match=line):
        one.reserve(share, GRANT)
    with pytest.raises(CgpuError, match=line):
        one.release(share)
    with pytest.raises(CgpuError, match=line):
        one.register(CONTAINER, 1, (), (), [ONE, share])
    assert tree.inst_ctl.read_text() == ""


def test_names_of_nodes_are_shares(tree: PlainTree) -> None:
    """A share has no directory in the tree, so it may be named as an entry of it."""
    client(tree).reserve("policy", GRANT)
    assert tree.inst_ctl.read_text().startswith("reserve id=policy ")


@given(st.lists(RESERVATIONS, max_size=25))
def test_what_is_written_is_read(wanted: list[Reservation]) -> None:
    """Each reservation comes back as it was written."""
    text = "\n".join(
        f"{one.share} {one.bytes} {one.weight} {one.highprio} {one.container or '-'}" for one in wanted
    )
    assert parse(text) == tuple(wanted)


@given(st.text(max_size=200) | st.lists(st.text("a0 -\n", max_size=20), max_size=30).map("\n".join))
def test_any_other_text_is_refused(text: str) -> None:
    """Whatever an entry holds, it is read as reservations or refused with one line."""
    said = ""
    found: tuple[Reservation, ...] = ()
    try:
        found = parse(text)
    except CgpuError as error:
        said = str(error)
    if said:
        assert said.startswith("reserved: ")
        assert "\n" not in said
    else:
        assert len(found) == (text.count("\n") + 1 if text else 0)


def test_sums() -> None:
    """A container counts with what it has, or with what is reserved for it where that is more."""
    long = "ab" * 32
    found = (
        Reservation("a", 10, 1, 0, long),
        Reservation("b", 20, 1, 0, long),
        Reservation("c", 5, 1, 0, None),
        Reservation("d", 7, 1, 0, "gone"),
    )
    assert promised({long[:12]: 25, "web": 3}, found) == 30 + 3 + 5 + 7
    assert promised({long[:12]: 40, "web": 3}, found) == 40 + 3 + 5 + 7
    assert promised({}, found) == 42
    assert places([long[:12], "web"], found) == 5
    assert places(["web"], ()) == 1


ANOTHER = "stop one, or raise max_inst"
LEFT = "request less, or stop a container (cgpu-smi lists them)"
SAID = {
    "memory": (
        errno.ENOMEM,
        {"1/reserved": f"x {10000 * MIB} 1 0 -"},
        f"GPU 1 has 5109 MiB of 15109 MiB left, and 6043 MiB were requested; {LEFT}",
    ),
    "weight": (
        errno.EDQUOT,
        {"1/free_weight": 1},
        f"GPU 1 has weight 1 of 20 (max_inst) left, and 2 was requested; {LEFT}",
    ),
    "places": (
        errno.ENOSPC,
        {"1/max_inst": 2, "1/aaaaaaaaaaaa/memsize": 1, "1/reserved": "x 1 1 0 aaaaaaaaaaaa\ny 1 1 0 -"},
        f"GPU 1 has 1 containers and 1 reserved places, expected at most 2 (max_inst); {ANOTHER}",
    ),
    "no such card": (errno.ENOENT, {}, None),
    "another value": (
        errno.EEXIST,
        {"0/reserved": f"{ONE} {MIB} 1 0 -"},
        f"it is reserved already: 1 MiB ({MIB} bytes) of GPU 0, weight 1, priority 0; release it first",
    ),
    "another value, unseen": (
        errno.EEXIST,
        {},
        "it is reserved already, with other values; release it first",
    ),
    "not accepted": (
        errno.EINVAL,
        {},
        f"the engine does not accept 1:{6043 * MIB}:2:1 (GPU:BYTES:WEIGHT:PRIORITY)",
    ),
    "mode": (
        errno.EOPNOTSUPP,
        {"1/mig": 1},
        "GPU 1 is in MIG mode and cannot be sliced; name another, or switch MIG off (nvidia-smi -mig 0)",
    ),
}


@pytest.mark.parametrize(("number", "entries", "line"), SAID.values(), ids=SAID)
def test_why_nothing_is_reserved(
    tree: PlainTree,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    entries: dict[str, object],
    line: str | None,
) -> None:
    """The tree names the reason of a refusal."""
    tree.write({"0/reserved": "", "1/reserved": "", **entries})
    for gpu in (0, 1):
        path = tree.path / str(gpu) / "reserved"
        path.write_text(path.read_text().lstrip("\n"))
    fail(monkeypatch, number)
    with pytest.raises(CgpuError) as caught:
        client(tree).reserve(ONE, GRANT)
    said = str(caught.value)
    assert said.startswith(f"share {ONE}: ")
    if line is not None:
        assert said == f"share {ONE}: {line}"


ORPHANED = (
    "removed containers have passed their memory on, and others hold it; the engine's log names them; "
    "start it again when they have ended"
)
UNKNOWN = "share lost is not reserved on this node; reserve it before the container starts"
FULL = "the engine has no place for another container; stop one (cgpu-smi lists them)"
BY_SHARES = {
    "unknown": (errno.ENOENT, UNKNOWN),
    "in use": (errno.EBUSY, f"container {CONTAINER} uses share {ONE} of GPU 0; end it first"),
    "no place": (errno.ENOSPC, FULL),
    "orphans": (errno.ENOMEM, f"what share {ONE}, lost was promised is not there: {ORPHANED}"),
    "not accepted": (errno.EINVAL, f"the engine does not accept share {ONE}, lost: see its log"),
    "no process": (errno.ESRCH, "there is no process 4711: it ended before it could be registered"),
}


@pytest.mark.parametrize(("number", "line"), BY_SHARES.values(), ids=BY_SHARES)
def test_why_a_container_by_shares_is_refused(
    tree: PlainTree, monkeypatch: pytest.MonkeyPatch, number: int, line: str
) -> None:
    """The message names the share, and the container that uses it."""
    tree.write({**RESERVED})
    (tree.path / "1/reserved").write_text("")
    fail(monkeypatch, number)
    with refused(f"container {CONTAINER}: {line}"):
        client(tree).register(CONTAINER, 4711, (), (), [ONE, "lost"])


def test_a_share_in_use_is_not_released(tree: PlainTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names who uses it."""
    tree.write({**RESERVED})
    (tree.path / "1/reserved").write_text("")
    fail(monkeypatch, errno.EBUSY)
    with refused(f"share {ONE}: container {CONTAINER} uses share {ONE} of GPU 0; end it first"):
        client(tree).release(ONE)


def test_an_older_engine(tree: PlainTree, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine without reservations is named as one, whatever it is asked for."""
    fail(monkeypatch, errno.EINVAL)
    one = client(tree)
    cure = "the engine that runs knows no reservations; have the installed version take over: cgpu upgrade"
    with refused(f"share {ONE}: {cure}"):
        one.reserve(ONE, GRANT)
    with refused(f"share {ONE}: {cure}"):
        one.release(ONE)
    with refused(f"container {CONTAINER}: {cure}"):
        one.register(CONTAINER, 1, (), (), [ONE])
