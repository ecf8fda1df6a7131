# SPDX-License-Identifier: Apache-2.0
"""Finds the places of the loaded driver that the witness watches: symbols, and returns in its code.

Functions of NVIDIA's open driver have their names in the kernel's table; the proprietary flavour hides those
of its core. The code is that which runs, not that of a file.
"""

from __future__ import annotations

import itertools
import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass

try:
    import capstone
except ModuleNotFoundError:
    capstone = None

ALLOCATE, FREE = "pmaAllocatePages", "pmaFreePages"
CHUNKS = "nvGpuOpsPmaAllocPages"  # calls ALLOCATE for UVM (nv_gpu_ops.c)
NUMA = "pmaNumaAllocate"  # ALLOCATE ends in it for memory that is a node of the host: on no x86
THUNK = "__x86_return_thunk"  # in place of each return, where a kernel has it so
MODULE = "[nvidia]"
RETURNS = 2  # x86 has four registers, and the two entries take one each
CODE_BYTES = 16384  # that the witness reads at once

Span = tuple[int, int]  # an address, and the one behind


class NoWitnessError(Exception):
    """The pages of this driver cannot be watched; the text says why."""


@dataclass(frozen=True)
class Places:
    """Addresses in the driver's code."""

    entry: int
    free: int
    chunks: Span
    returns: tuple[int, ...]

    def order(self) -> str:
        """Return the line by which cgpu-witness begins."""
        numbers = (self.entry, self.free, *self.chunks, *self.returns)
        return " ".join(["attach", *(f"{number:#x}" for number in numbers)])


@dataclass(frozen=True)
class Symbols:
    """Functions of the driver by name, and the kernel's thunk for returns, 0 without one."""

    functions: dict[str, Span]
    thunk: int = 0

    def span(self, name: str) -> Span:
        if name not in self.functions:
            raise NoWitnessError(f"the driver hides {name}, as its proprietary flavour does")
        begin, end = self.functions[name]
        if not begin:
            raise NoWitnessError(f"/proc/kallsyms hides the address of {name}: kernel.kptr_restrict is 2")
        return begin, end


def read_symbols(lines: Iterable[str]) -> Symbols:
    """Read lines of /proc/kallsyms."""
    found, thunk = [], 0
    for line in lines:
        words = line.split()
        if words[-1] == MODULE:
            found.append((int(words[0], 16), words[2]))
        elif len(words) == 3 and words[2] == THUNK:
            thunk = int(words[0], 16)
    begins = sorted({address for address, _ in found})
    ends = dict(itertools.pairwise(begins))
    return Symbols({name: (begin, ends.get(begin, begin)) for begin, name in found}, thunk)


def find_returns(code: bytes, begin: int, symbols: Symbols) -> tuple[int, ...]:
    """Return the addresses at which a function of x86-64 returns.

    Raises NoWitnessError where the code is not understood to its end, or leaves the function by a jump.
    """
    end = begin + len(code)
    numa = symbols.functions.get(NUMA, (0, 0))[0]
    returns, read = [], begin
    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    for address, size, name, operands in decoder.disasm_lite(code, begin):
        read = address + size
        target = int(operands, 16) if name.startswith("j") and operands.startswith("0x") else begin
        if name.split()[-1] == "ret" or target == symbols.thunk:
            returns.append(address)
        elif not begin <= target < end and target != numa:
            raise NoWitnessError(f"{ALLOCATE} is left by a jump at {address - begin:#x}, not by a return")
    if read != end:
        raise NoWitnessError(f"the code of {ALLOCATE} is not understood at {read - begin:#x}")
    return tuple(returns)


def find_places(symbols: Symbols, read_code: Callable[[int, int], bytes]) -> Places:
    """Find all places; raises NoWitnessError. read_code: given an address and a number of bytes."""
    if platform.machine() != "x86_64":
        raise NoWitnessError(f"processors {platform.machine()} are not watched, only x86_64")
    if capstone is None:
        raise NoWitnessError("the Python package capstone is not there")
    begin, end = symbols.span(ALLOCATE)
    if end - begin > CODE_BYTES:
        raise NoWitnessError(f"{ALLOCATE} has {end - begin} bytes, expected at most {CODE_BYTES}")
    returns = find_returns(read_code(begin, end - begin), begin, symbols)
    if not 0 < len(returns) <= RETURNS:
        raise NoWitnessError(
            f"{ALLOCATE} has {len(returns)} returns, expected 1 to {RETURNS}: there are no more registers"
        )
    return Places(begin, symbols.span(FREE)[0], symbols.span(CHUNKS), returns)
