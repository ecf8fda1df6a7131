# SPDX-License-Identifier: Apache-2.0
"""The filter of a command in a slice is the one that a container gets, run by hand as the kernel runs it."""

from __future__ import annotations

import copy
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cgpu.errors import CgpuError
from cgpu.run.supervision import I386, INSTRUCTION, NUMBERS, QUESTION, USER_NOTIF, X86_64, assemble, profile
from tests.run.libseccomp import compile_profile

if TYPE_CHECKING:
    from cgpu.runtime_config.oci_runtime.fields import Table

# Instructions of classic BPF.
LOAD_ABSOLUTE, RETURN, JUMP = 0x20, 0x06, 0x05
WORD = 0xFFFFFFFF
JUMPS = {
    0x15: lambda a, k: a == k,
    0x25: lambda a, k: a > k,
    0x35: lambda a, k: a >= k,
    0x45: lambda a, k: a & k != 0,
}
SUMS = {
    0x04: lambda a, k: a + k,
    0x14: lambda a, k: a - k,
    0x44: lambda a, k: a | k,
    0x54: lambda a, k: a & k,
}


@dataclass(frozen=True)
class Call:
    """A system call as a filter sees it."""

    architecture: int
    number: int
    arguments: tuple[int, ...]

    def data(self) -> bytes:
        """Return it as struct seccomp_data."""
        return struct.pack("=IIQ6Q", self.number, self.architecture, 0, *self.arguments)


def verdict(program: bytes, call: Call) -> int:
    """Return what a filter answers for a call. Raises KeyError for an instruction that is not known."""
    code = list(INSTRUCTION.iter_unpack(program))
    data, a, at = call.data(), 0, 0
    while True:
        operation, if_true, if_false, k = code[at]
        at += 1
        if operation == RETURN:
            return int(k)
        if operation == LOAD_ABSOLUTE:
            (a,) = struct.unpack_from("=I", data, k)
        elif operation == JUMP:
            at += k
        elif operation in JUMPS:
            at += if_true if JUMPS[operation](a, k) else if_false
        else:
            a = SUMS[operation](a, k) & WORD


ALLOWED = 0x7FFF0000
KILLED = (0x80000000, 0x00000000)  # the process, or the thread
WATCHED = sorted({number for _, table in NUMBERS.values() for number in table.values()})
words = st.one_of(
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 31), max_size=4).map(lambda bits: sum({1 << bit for bit in bits})),
)
arguments = st.tuples(words, words, words, words, words, words)
# -1 is the number of a call that a tracer has cancelled.
numbers = st.one_of(
    st.sampled_from(WATCHED), st.integers(0, 600), st.integers(0, 2**31 - 1), st.just(2**32 - 1)
)
calls = st.builds(Call, st.sampled_from([X86_64, I386]), numbers, arguments)


def outcome(value: int) -> str:
    """Return a filter's answer in a word."""
    return {ALLOWED: "allow", USER_NOTIF: "notify", **dict.fromkeys(KILLED, "kill")}[value]


@pytest.mark.parametrize("shared", [True, False])
def test_same_as_of_containers(*, shared: bool) -> None:
    """Whatever a process calls, our program answers as the one that libseccomp makes of the same profile."""
    asked = profile("run-0", shared=shared)
    ours, theirs = assemble(asked), compile_profile(asked)

    @given(calls)
    @settings(max_examples=1000)
    @example(Call(X86_64, 16, (3, 0xC020462A, 0, 0, 0, 0)))
    @example(Call(X86_64, 0x40000000 + 514, (3, 1 << 16, 0, 0, 0, 0)))
    @example(Call(I386, 90, (0, 0, 0, 1, 0, 0)))
    def check(call: Call) -> None:
        assert outcome(verdict(ours, call)) == outcome(verdict(theirs, call))

    check()


@pytest.mark.parametrize("number", [16, 0x40000000 + 514])
def test_driver_calls_are_notified(number: int) -> None:
    """A call with a size goes to the engine, a terminal's does not; so does the question of our own."""
    program = assemble(profile("run-0", shared=True))
    answers = [
        verdict(program, Call(X86_64, number, (3, request, 0, 0, 0, 0)))
        for request in (0xC020462A, QUESTION, 0x5401)
    ]
    assert answers == [USER_NOTIF, USER_NOTIF, ALLOWED]


def test_other_architectures_are_killed() -> None:
    """A call of an architecture that the profile does not name ends the process."""
    assert verdict(assemble(profile("run-0", shared=True)), Call(0xC00000B7, 29, (0,) * 6)) in KILLED


def test_lengths() -> None:
    """Every instruction is whole, and the kernel's limit of 4096 is far away."""
    program = assemble(profile("run-0", shared=True))
    assert len(program) % 8 == 0
    assert len(program) // 8 < 400


@pytest.mark.parametrize(
    ("place", "key", "value"),
    [
        ("profile", "defaultAction", "SCMP_ACT_ERRNO"),
        ("profile", "architectures", ["SCMP_ARCH_X86_64"]),
        ("rule", "action", "SCMP_ACT_ALLOW"),
        ("rule", "names", ["ioctl", "mmap"]),
        ("rule", "names", ["openat"]),
        ("rule", "args", []),
        ("test", "op", "SCMP_CMP_EQ"),
        ("test", "index", 6),
        ("test", "value", 1 << 32),
        ("test", "valueTwo", "1"),
        ("test", "valueTwo", 1),
    ],
)
def test_unknown_rules_are_refused(place: str, key: str, value: object) -> None:
    """A profile with anything else in it makes no program."""
    asked: Table = copy.deepcopy(profile("run-0", shared=True))
    rules = asked["syscalls"]
    assert isinstance(rules, list)
    target = {"profile": asked, "rule": rules[0], "test": rules[0]["args"][0]}[place]
    target[key] = value
    with pytest.raises(CgpuError, match=r"^seccomp: .*(expected|never met|not known)"):
        assemble(asked)
