# SPDX-License-Identifier: Apache-2.0
"""Events of a node with the kernel module, as `cgpu events` shows them.

The module's own are lines in the kernel's log; the hook and the runtime write those about refused containers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.commands import eventually
from tests.integration.engine import MIB
from tests.vm.conftest import Boot
from tests.vm.harness import events as shown
from tests.vm.harness.machine import Machine
from tests.vm.harness.slices import Stage, stage

pytestmark = [pytest.mark.enforcement, pytest.mark.fake_driver("a card of 4 GiB")]

LIMIT = 1024 * MIB
NO_MEMORY = 0x51  # nvstatuscodes.h
SECONDS = 30


@pytest.fixture(scope="module")
def machine(boot: Boot, cpus: int) -> Machine:
    """Return a machine in whose log are no containers of other files, which may have the same names."""
    return boot(cpus=cpus)


@pytest.fixture
def staged(machine: Machine) -> Iterator[Stage]:
    with stage(machine, cards="T4=4096") as made:
        yield made


def events(machine: Machine, container: str) -> list[dict[str, Any]]:
    """Return what the command shows of a container. A forged line in the kernel's log is not in it."""
    forged = f"cgpu_km: event=ended gpu=0 uuid=GPU-0 id={container} memsize=1 peak=999"
    machine.shell(f"echo '{forged}' >/dev/kmsg")
    return shown.events(machine, f"container={container}")


def test_life_of_a_slice(staged: Stage) -> None:
    """Start and end are told, the end with peak and refusals, also where no command removed the container."""
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
