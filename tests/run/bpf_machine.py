# SPDX-License-Identifier: Apache-2.0
"""A seccomp filter run by hand: the instructions of classic BPF, as the kernel runs them."""

from __future__ import annotations

import struct
from dataclasses import dataclass

INSTRUCTION = struct.Struct("=HBBI")
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
