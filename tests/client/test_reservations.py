# SPDX-License-Identifier: Apache-2.0
"""The client's side of reservations, on plain files, and what it says when the engine refuses."""

from __future__ import annotations

import errno
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.client.reservations import Reservation, parse, places, promised
from cgpu.client.tree import Tree
from cgpu.errors import CgpuError
from tests.client.support import CONTAINER, MIB, PlainTree, refuse_writes
from tests.refusal import has_parts, refused

ONE = "6f1c0a52-93d1-4c1e-8f6a-000000000001"
TWO = "6f1c0a52-93d1-4c1e-8f6a-000000000002"
GRANT = (1, 6043 * MIB, 2, 1)
RESERVED: dict[str, object] = {"0/reserved": f"{ONE} {1024 * MIB} 2 0 {CONTAINER}\n{TWO} {2048 * MIB} 1 1 -"}
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


def test_what_is_written(tree: PlainTree) -> None:
    """A reservation, its end and a container by shares are one write each, of the long form."""
    one = client(tree)
    for call, line in (
        (partial(one.reserve, ONE, GRANT), f"reserve id={ONE} gpu=1:{6043 * MIB}:2:1"),
        (partial(one.release, ONE), f"release id={ONE}"),
        # A share has no directory in the tree, so it may be named as an entry of it.
        (partial(one.reserve, "policy", GRANT), f"reserve id=policy gpu=1:{6043 * MIB}:2:1"),
        (
            partial(one.register, CONTAINER, 4711, (), (), [ONE, TWO]),
            f"create id={CONTAINER} pid=4711 share={ONE} share={TWO}",
        ),
    ):
        tree.inst_ctl.write_text("")
        call()
        assert tree.inst_ctl.read_text() == line


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
    try:
        found = parse(text)
    except CgpuError as error:
        said = str(error)
    else:
        assert len(found) == (text.count("\n") + 1 if text else 0)
        return
    assert has_parts(said, "reserved: ")


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


LESS = "request less, or stop a container"


@pytest.mark.parametrize(
    ("number", "entries", "parts"),
    [
        (
            errno.ENOMEM,
            {"1/reserved": f"x {10000 * MIB} 1 0 -"},
            ("GPU 1 has 5109 MiB of 15109 MiB left, and 6043 MiB were requested", LESS),
        ),
        (errno.EDQUOT, {"1/free_weight": 1}, ("GPU 1 has weight 1 of 20 (max_inst) left, and 2 was", LESS)),
        (
            errno.ENOSPC,
            {"1/max_inst": 2, "1/aaaaaaaaaaaa/memsize": 1, "1/reserved": "x 1 1 0 aaaaaaaaaaaa\ny 1 1 0 -"},
            ("GPU 1 has 1 containers and 1 reserved places, expected at most 2 (max_inst)",),
        ),
        (errno.ENOENT, {}, ("no GPU 1 here",)),
        (
            errno.EEXIST,
            {"0/reserved": f"{ONE} {MIB} 1 0 -"},
            (f"it is reserved already: 1 MiB ({MIB} bytes) of GPU 0, weight 1, priority 0", "release it"),
        ),
        (errno.EEXIST, {}, ("it is reserved already, with other values", "release it first")),
        (errno.EINVAL, {}, (f"the engine does not accept 1:{6043 * MIB}:2:1 (GPU:BYTES:WEIGHT:PRIORITY)",)),
        (errno.EOPNOTSUPP, {"1/mig": 1}, ("GPU 1 is in MIG mode", "switch MIG off")),
    ],
)
def test_why_nothing_is_reserved(
    tree: PlainTree,
    monkeypatch: pytest.MonkeyPatch,
    number: int,
    entries: dict[str, object],
    parts: tuple[str, ...],
) -> None:
    """The tree names the reason of a refusal."""
    tree.write(entries)
    refuse_writes(monkeypatch, number)
    with refused(f"share {ONE}: {parts[0]}", *parts[1:]):
        client(tree).reserve(ONE, GRANT)


USED = f"container {CONTAINER} uses share {ONE} of GPU 0; end it first"


@pytest.mark.parametrize(
    ("number", "parts"),
    [
        (errno.ENOENT, ("share lost is not reserved on this node", "reserve it before the container starts")),
        (errno.EBUSY, (USED,)),
        (errno.ENOSPC, ("the engine has no place for another container", "stop one")),
        (errno.ENOMEM, (f"what share {ONE}, lost was promised is not there", "others hold it")),
        (errno.EINVAL, (f"the engine does not accept share {ONE}, lost", "its log")),
        (errno.ESRCH, ("there is no process 4711",)),
    ],
)
def test_why_a_container_by_shares_is_refused(
    tree: PlainTree, monkeypatch: pytest.MonkeyPatch, number: int, parts: tuple[str, ...]
) -> None:
    """The message names the share, and the container that uses it; so does that of a release."""
    tree.write(RESERVED)
    refuse_writes(monkeypatch, number)
    with refused(f"container {CONTAINER}: {parts[0]}", *parts[1:]):
        client(tree).register(CONTAINER, 4711, (), (), [ONE, "lost"])
    if number == errno.EBUSY:
        with refused(f"share {ONE}: {USED}"):
            client(tree).release(ONE)
