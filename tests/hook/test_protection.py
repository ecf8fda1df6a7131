# SPDX-License-Identifier: Apache-2.0
"""Memory that the programs in C cannot write to once they run, with either C library."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import psutil

from tests.hook.support import HOOK
from tests.integration.commands import eventually

PROGRAM = HOOK.with_name("cgpu-hook")
PAGE = 4096


def relro(program: Path) -> tuple[int, int]:
    """Return where the part begins and ends that is written at the start only, in whole pages."""
    headers = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True).stdout
    ((address, length),) = re.findall(r"GNU_RELRO +\w+ (\w+) \w+ \w+ (\w+)", headers)
    return int(address, 16) // PAGE * PAGE, (int(address, 16) + int(length, 16)) // PAGE * PAGE


def mappings(hook: psutil.Process) -> list[tuple[int, int, str]]:
    found = [one for one in hook.memory_maps(grouped=False) if one.path == str(PROGRAM)]
    ends = [one.addr.partition("-") for one in found]
    return [(int(at[0], 16), int(at[2], 16), one.perms) for one, at in zip(found, ends, strict=True)]


def test_addresses_are_read_only() -> None:
    """While the hook reads its state, the addresses of what it calls are read-only already."""
    first, last = relro(PROGRAM)
    assert last > first
    command = [str(PROGRAM), "prestart", "/nowhere", "create id=x gpu=0:1"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env={}) as hook:
        process = psutil.Process(hook.pid)
        waits = psutil.STATUS_SLEEPING
        eventually(lambda: mappings(process) and process.status() == waits, "it waits for its state")
        found = mappings(process)
        base = found[0][0]
        covers = [which for begin, end, which in found if begin < base + last and end > base + first]
        hook.kill()
    assert covers
    assert set(covers) == {"r--p"}
