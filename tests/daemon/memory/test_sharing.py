# SPDX-License-Identifier: Apache-2.0
"""Duplicates by other processes: where the owner gives leave, within one container, under one charge."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.daemon.harness import MIB, Daemon, Sliced
from tests.integration.commands import eventually

LIMIT = 1024 * MIB
SLICE = f"gpu=0:{LIMIT}"
ALL, TO_CLIENT, PID = 1, 3, 4  # RS_SHARE_TYPE_*
NO_MEMORY, NO_PERMISSION = "expect=0x51", "expect=0x1b"


@pytest.fixture(autouse=True)
def ended(daemon: Daemon) -> Iterator[None]:
    yield
    daemon.end_slices()


def shared(sliced: Sliced) -> str:
    """Return client and handle of what a probe has just shared."""
    line = sliced.line("share")
    found = re.search(r"client=(0x\w+) handle=(0x\w+) .*status=0x0$", line)
    assert found, line
    return f"{found[1]}:{found[2]}"


def test_another_process_needs_leave(daemon: Daemon) -> None:
    """A process needs leave; its duplicate is then charged once, and outlives the original."""
    base = daemon.slice(2, SLICE, "hold", until="hold")
    owner = daemon.enter(base, "alloc=768M", f"share={PID}", "alloc=256M", f"share={ALL}", "hold")
    kept, given = shared(owner), shared(owner)
    daemon.enter(base, NO_PERMISSION, f"dup-of={kept}").succeeds()
    daemon.enter(base, f"dup-of={given}", "dup", "count", "hold", until="count")
    assert daemon.used(base) == LIMIT
    owner.kill()
    eventually(lambda: daemon.used(base) == 256 * MIB, "what nobody has stayed, or what is held went")
    daemon.enter(base, "alloc=768M", NO_MEMORY, "alloc=64K:64k").succeeds()


@pytest.mark.enforcement
def test_no_leave_crosses_containers(daemon: Daemon) -> None:
    """No container duplicates another's memory, whatever the owner or the taker allows in the driver."""
    owner = daemon.slice(2, SLICE, "alloc=512M", f"share={ALL}", "alloc=1M", f"share={PID}", "hold")
    given, kept = shared(owner), shared(owner)
    takes = [NO_PERMISSION, f"share={TO_CLIENT}:0:{kept}", NO_PERMISSION, f"share={ALL}:0:{kept}"]
    daemon.slice(3, SLICE, "alloc=1M", NO_PERMISSION, f"dup-of={given}", *takes).succeeds()
    # The refused share has changed nothing.
    daemon.enter(owner, NO_PERMISSION, f"dup-of={kept}", f"dup-of={given}").succeeds()
