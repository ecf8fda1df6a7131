# SPDX-License-Identifier: Apache-2.0
"""The seccomp filter of `cgpu run` answers each system call as a container's filter does.

An interpreter of classic BPF in this file runs both filters.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cgpu.run.calls import AARCH64, ARM, I386, NUMBERS, X86_64
from cgpu.run.supervision import INSTRUCTION, USER_NOTIF, assemble
from cgpu.runtime_config.oci_runtime.seccomp import ARCHITECTURES, supervise
from tests.run.libseccomp import compile_profile

# Operations of classic BPF: include/uapi/linux/bpf_common.h. a: the accumulator, k: the operand.
LOAD_ABSOLUTE, RETURN, JUMP = 0x20, 0x06, 0x05
WORD = 0xFFFFFFFF
JUMPS = {
    0x15: lambda a, k: a == k,
    0x25: lambda a, k: a > k,
    0x35: lambda a, k: a >= k,
    0x45: lambda a, k: a & k != 0,
}
ARITHMETIC = {
    0x04: lambda a, k: a + k,
    0x14: lambda a, k: a - k,
    0x44: lambda a, k: a | k,
    0x54: lambda a, k: a & k,
}


@dataclass(frozen=True)
class Call:
    """A system call, as struct seccomp_data describes it to a filter."""

    architecture: int
    number: int
    arguments: tuple[int, ...]

    def data(self) -> bytes:
        return struct.pack("=IIQ6Q", self.number, self.architecture, 0, *self.arguments)


def verdict(program: bytes, call: Call) -> int:
    """Return the return value of a filter for a call. Raises KeyError for an unknown instruction."""
    instructions = list(INSTRUCTION.iter_unpack(program))
    data, a, position = call.data(), 0, 0
    while True:
        operation, if_true, if_false, k = instructions[position]
        position += 1
        if operation == RETURN:
            return int(k)
        if operation == LOAD_ABSOLUTE:
            (a,) = struct.unpack_from("=I", data, k)
        elif operation == JUMP:
            position += k
        elif operation in JUMPS:
            position += if_true if JUMPS[operation](a, k) else if_false
        else:
            a = ARITHMETIC[operation](a, k) & WORD


# Return values of a filter: include/uapi/linux/seccomp.h.
ALLOWED = 0x7FFF0000
BUSY = 0x00050010  # SECCOMP_RET_ERRNO with EBUSY
KILLED = (0x80000000, 0x00000000)  # the process, or the thread
# The numbers of the system calls that the profile has rules for, on all architectures.
NUMBERS_WITH_RULES = sorted(
    {
        number
        for tables in NUMBERS.values()
        for table in tables.values()
        for both in table.values()
        for number in both
    }
)
argument_values = st.one_of(
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(0, 31), max_size=4).map(lambda bits: sum({1 << bit for bit in bits})),
)
arguments = st.tuples(
    argument_values, argument_values, argument_values, argument_values, argument_values, argument_values
)
# 2**32 - 1, which is -1, is the number of a call that a tracer has cancelled.
numbers = st.one_of(
    st.sampled_from(NUMBERS_WITH_RULES), st.integers(0, 600), st.integers(0, 2**31 - 1), st.just(2**32 - 1)
)
calls = st.builds(Call, st.sampled_from([X86_64, I386, AARCH64, ARM]), numbers, arguments)


def outcome(value: int) -> str:
    """Return the name of the action that a return value of a filter stands for."""
    return {ALLOWED: "allow", USER_NOTIF: "notify", BUSY: "busy", **dict.fromkeys(KILLED, "kill")}[value]


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("machine", NUMBERS)
def test_same_verdicts_as_libseccomp(machine: str, *, shared: bool) -> None:
    """For any call, assemble()'s filter and libseccomp's filter of a container have the same outcome."""
    linux: dict[str, Any] = {}
    supervise(linux, "run-0", (), shared=shared)
    linux["seccomp"]["architectures"] = ARCHITECTURES[machine]
    assembled, compiled = assemble(machine, shared=shared), compile_profile(linux["seccomp"])

    @given(calls)
    @example(Call(X86_64, 16, (3, 0xC020462A, 0, 0, 0, 0)))
    @example(Call(X86_64, 0x40000000 + 514, (3, 1 << 16, 0, 0, 0, 0)))
    @example(Call(I386, 90, (0, 0, 0, 1, 0, 0)))
    @example(Call(I386, 354, (1, 8, 0, 0, 0, 0)))
    @example(Call(AARCH64, 29, (3, 0xC020462A, 0, 0, 0, 0)))
    @example(Call(AARCH64, 222, (0, 0, 0, 1, 0, 0)))
    @example(Call(AARCH64, 277, (1, 8, 0, 0, 0, 0)))
    @example(Call(ARM, 54, (3, 0xC020462A, 0, 0, 0, 0)))
    @example(Call(ARM, 192, (0, 0, 0, 1, 0, 0)))
    @example(Call(ARM, 383, (1, 8, 0, 0, 0, 0)))
    def check(call: Call) -> None:
        assert outcome(verdict(assembled, call)) == outcome(verdict(compiled, call))

    check()


def test_other_architectures_are_killed() -> None:
    """A call of an architecture that the profile does not name kills its caller."""
    assert verdict(assemble("x86_64", shared=True), Call(AARCH64, 29, (0,) * 6)) in KILLED
    assert verdict(assemble("aarch64", shared=True), Call(X86_64, 16, (0,) * 6)) in KILLED
