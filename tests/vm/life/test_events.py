# SPDX-License-Identifier: Apache-2.0
"""The event log of the kernel module: its lines in the kernel's log, as `cgpu events` shows them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.commands import eventually
from tests.integration.engine import MIB
from tests.vm.harness.machine import Machine
from tests.vm.harness.slices import Stage, stage
from tests.vm.harness.store import ROOT

pytestmark = [pytest.mark.code_changes, pytest.mark.enforcement]

LIMIT = 1024 * MIB
NO_MEMORY = 0x51  # nvstatuscodes.h
SECONDS = 30
IN_ROOT = 'cd "$1"; shift; exec "$@"'


@pytest.fixture
def staged(machine: Machine) -> Iterator[Stage]:
    with stage(machine, cards="T4=4096") as made:
        yield made


def events(machine: Machine, container: str) -> list[dict[str, Any]]:
    """Return what the command shows of a container. A forged line in the kernel's log is not in it."""
    forged = f"cgpu_km: event=ended gpu=0 uuid=GPU-0 id={container} memsize=1 peak=999"
    machine.shell(f"echo '{forged}' >/dev/kmsg")
    command = (str(ROOT / ".venv/bin/python"), "-m", "cgpu.main", "events", "--format", "json")
    words = (machine.seen(ROOT), *command, "--filter", f"container={container}")
    shown = machine.shell(IN_ROOT, *words, timeout=240)
    return [json.loads(line) for line in shown.stdout.splitlines()]


def test_life_of_a_slice(staged: Stage) -> None:
    """Start and end are told, the end with peak and refusals, also where nobody removed the container."""
    machine = staged.machine
    tenant = staged.slice("tenant", LIMIT)
    words = ["alloc=64M", "free=last", "alloc=1M", f"expect={NO_MEMORY:#x}", "alloc=2G"]
    done = tenant.probe(*words)
    assert done.returncode == 0, done.text
    assert [one["event"] for one in events(machine, "tenant")] == ["started"]
    tenant.end()
    eventually(
        lambda: "id=tenant" in machine.dmesg().rpartition("event=ended")[2],
        "its end is told",
        machine.scaled(SECONDS),
    )
    started, ended = events(machine, "tenant")
    assert (started["gpu"], started["memsize"], started["weight"]) == (0, LIMIT, 1)
    assert (ended["event"], ended["memsize"], ended["refused_limit"]) == ("ended", LIMIT, 1)
    assert ended["peak"] >= 64 * MIB
    assert ended["peak"] < LIMIT
    assert 0 < ended["lived"] < 600e9
