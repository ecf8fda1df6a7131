# SPDX-License-Identifier: Apache-2.0
"""Calls of the hook: such as the wrapper writes, and such with one thing changed."""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass, field

from hypothesis import strategies as st

from cgpu.config.effective import DEFAULTS
from tests.client.support import CONTAINER, MIB
from tests.request.shares import OTHER_SHARE, SHARE

# Answers of an engine to a line; EMSGSIZE stands for: it took a part.
ANSWERS = (
    *(
        ("create", number)
        for number in (errno.EEXIST, errno.ENOSPC, errno.ENOMEM, errno.EIO, errno.EMSGSIZE, errno.ESRCH)
    ),
    *(("create", number) for number in (errno.EINVAL, errno.ENODEV, errno.EOPNOTSUPP, errno.ENOTCONN)),
    *(("destroy", number) for number in (errno.EIO, errno.ENOSPC, errno.EMSGSIZE, errno.ENOTCONN)),
)


@dataclass(frozen=True)
class Node:
    """The node that a call finds. tree: its name. refuses: which line its engine refuses, and with what.

    config: its configuration in place of one with these settings; TREE stands for the tree's path.
    """

    tree: str = "ready"
    refuses: tuple[str, int] | None = None
    drained: bool = False
    settings: dict[str, object] = field(default_factory=dict)
    config: str = ""


@dataclass(frozen=True)
class Call:
    """One call of the hook."""

    raw: bytes
    arguments: tuple[str, ...]
    node: Node = Node()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
ready = st.sampled_from([Node()] * 5 + [Node(settings={**DEFAULTS, "hook_timeout": 9})])
other_nodes = st.sampled_from(
    [
        *(Node(refuses=refused) for refused in ANSWERS),
        *(Node(tree=name) for name in ("stopped", "closed", "folder", "missing")),
        Node(drained=True),
        *(Node(settings={"log_format": form}) for form in ("json", "journal")),
        Node(settings={"future": 1}),
    ]
)
good_ids = st.sampled_from(["c1", CONTAINER, "A.b-c+d_e", "0", "x" * 126 + "1"]) | st.from_regex(
    r"[A-Za-z0-9_.+][A-Za-z0-9_.+-]{0,20}[0-9]", fullmatch=True
)
good_pids = st.sampled_from([1, 4711, (1 << 22)]) | st.integers(1, 1 << 22)
# Grants on two cards of 15109 MiB, some of which fit; the engine says which, and not the hook.
good_grants = st.tuples(
    st.sampled_from([0, 0, 1, 2, 9999]),
    st.sampled_from([1, MIB, 6043 * MIB, 15109 * MIB, 40000 * MIB, 1 << 50]) | st.integers(1, 1 << 50),
    st.sampled_from([0, 1, 2, 999]) | st.integers(0, 999),
    st.sampled_from([0, 1]),
).map(lambda found: ":".join(map(str, found)))
notes = st.dictionaries(
    st.sampled_from(["io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name", "a", 'b"\\']),
    st.text(max_size=4),
    max_size=2,
)
more = st.fixed_dictionaries(
    {"ociVersion": st.just("1.0.2"), "status": st.sampled_from(["creating", "created", "stopped"])},
    optional={
        "bundle": st.sampled_from(["/b", "/run/moby/c1", "../nowhere", ""]),
        "bundlePath": st.just("/b"),
        "annotations": notes,
        "root": json_values,
    },
)


def pairs(flag: str, values: list[str]) -> tuple[str, ...]:
    return tuple(word for value in values for word in (flag, value))


grants_and_cards = st.builds(
    lambda grants, cards: pairs("--grant", grants) + pairs("--native", cards),
    st.lists(good_grants, min_size=1, max_size=3),
    st.lists(st.sampled_from(["0", "1", "9999"]), max_size=2),
)
shares = st.lists(st.sampled_from([SHARE, OTHER_SHARE]), min_size=1, max_size=2).map(
    lambda found: pairs("--share", found)
)
starts = st.builds(
    lambda stage, given: (stage, *given),
    st.sampled_from(["prestart", "createRuntime"]),
    grants_and_cards | grants_and_cards | shares,
)


def _state(id_: str, pid: int, members: dict[str, object]) -> bytes:
    return json.dumps({**members, "id": id_, "pid": pid}).encode()


good_states = st.builds(_state, good_ids, good_pids, more)
# A container that has ended has no process.
ended = st.builds(_state, good_ids, st.just(0) | good_pids, more)
valid = st.builds(Call, good_states, starts, ready) | st.builds(Call, ended, st.just(("poststop",)), ready)
on_other_nodes = st.builds(Call, good_states, starts, other_nodes) | st.builds(
    Call, ended, st.just(("poststop",)), other_nodes
)

ids = st.sampled_from(["c1", CONTAINER, "policy", "..", "-1", "a b", "é", ""]) | st.text(max_size=5)
pids = st.sampled_from([0, 1, 4711, -1, 1 << 22, (1 << 22) + 1, "1", None, True, 1.0]) | st.integers()
numbers = st.sampled_from(["0", "1", "00", "-1", "", "1048576", "9999", "10000", str(1 << 50), "٣"])
grants = st.tuples(numbers, numbers, numbers, numbers).map(":".join) | st.just("0:1048576:1:0")
flags = st.sampled_from(["--native", "--share", "--grant", "-x", SHARE, "x", "poststop"])
junk = st.sampled_from([b"", b" ", b"}", b"\0", b"\\", b'"', b"0", b"\xff", b',"pid":1'])


def _spoil(call: Call, cut: int, inserted: bytes, dropped: int) -> Call:
    raw = call.raw[:cut] + inserted + call.raw[cut + dropped :]
    return Call(raw, call.arguments, call.node)


def _exchange(call: Call, at: int, word: str | None) -> Call:
    """Change one argument, or leave it out."""
    at %= len(call.arguments)
    words = call.arguments[:at] + (() if word is None else (word,)) + call.arguments[at + 1 :]
    return Call(call.raw, words, call.node)


near = (
    st.builds(_spoil, valid, st.integers(0, 200), junk, st.integers(0, 2))
    | st.builds(_exchange, valid, st.integers(0, 9), st.none() | numbers | grants | flags)
    | st.builds(Call, st.builds(_state, ids, pids, more), starts, ready)
)
# Half of them are such as the wrapper writes.
calls = st.sampled_from([valid] * 5 + [on_other_nodes] * 2 + [near] * 3).flatmap(lambda kind: kind)
