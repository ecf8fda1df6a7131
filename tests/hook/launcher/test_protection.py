# SPDX-License-Identifier: Apache-2.0
"""What the programs in C cannot write to once they run, with whichever C library they are linked."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

from tests.hook.support import HOOK
from tests.integration.commands import eventually

PROGRAM = HOOK.with_name("cgpu-hook")
PT_GNU_RELRO = 0x6474E552
PAGE = 4096


def relro(program: Path) -> tuple[int, int]:
    """Return where the part begins and ends that is written at the start only, in whole pages (elf(5))."""
    raw = program.read_bytes()
    (offset,) = struct.unpack_from("<Q", raw, 32)
    size, count = struct.unpack_from("<HH", raw, 54)
    for at in range(offset, offset + size * count, size):
        kind, _, _, address, _, _, length, _ = struct.unpack_from("<IIQQQQQQ", raw, at)
        if kind == PT_GNU_RELRO:
            return address // PAGE * PAGE, (address + length) // PAGE * PAGE
    raise AssertionError(f"{program}: no such part")


def mappings(pid: int) -> list[tuple[int, int, str]]:
    found = []
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        words = line.split()
        if words[-1] == str(PROGRAM):
            begin, end = (int(one, 16) for one in words[0].split("-"))
            found.append((begin, end, words[1]))
    return found


def is_asleep(pid: int) -> bool:
    return "\nState:\tS (sleeping)\n" in Path(f"/proc/{pid}/status").read_text()


def test_addresses_are_read_only() -> None:
    """While the hook reads its state, the addresses of what it calls are read-only already."""
    first, last = relro(PROGRAM)
    assert last > first
    with subprocess.Popen([PROGRAM, "poststop"], stdin=subprocess.PIPE, env={}) as hook:
        eventually(lambda: mappings(hook.pid) and is_asleep(hook.pid), "it waits for its state")
        found = mappings(hook.pid)
        base = found[0][0]
        covers = [which for begin, end, which in found if begin < base + last and end > base + first]
        hook.kill()
    assert covers
    assert set(covers) == {"r--p"}
