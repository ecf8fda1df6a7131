# SPDX-License-Identifier: Apache-2.0
"""A card that falls off the bus, on the kernel module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.commands import eventually
from tests.integration.engine import MIB
from tests.vm.harness.events import events
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import load_driver, load_engine, read, unload_driver, unload_engine
from tests.vm.harness.slices import Stage, create, set_knob, stage

pytestmark = pytest.mark.fake_driver("a knob of the driver")

GPU_IS_LOST = 0x0F  # nvstatuscodes.h
SECONDS = 60
LIMIT = 1024 * MIB


@pytest.fixture
def staged(machine: Machine) -> Iterator[Stage]:
    with stage(machine, cards="T4=4096:2") as made:
        yield made


def test_the_engine_comes_while_a_gpu_is_lost(machine: Machine, module: Path) -> None:
    """The engine has the other GPUs; no container gets a slice of the lost one, or its node."""
    load_driver(machine, cards="T4=4096:2")
    set_knob(machine, "test_lost", "0 1")
    load_engine(machine)
    try:
        assert "GPU 0 (/dev/nvidia0): the driver has lost it, and it is left out" in machine.dmesg()
        gpus = [name for name in machine.run(["ls", "/proc/cgpu_km"]).stdout.split() if name.isdigit()]
        assert gpus == ["1"]
        other, done = create(machine, "other", f"1:{LIMIT}")
        done.check()
        assert other.probe("gpu=1", "expect=0x51", f"alloc={LIMIT + MIB}", "alloc=1M").returncode == 0
        assert other.probe("gpu=0", "alloc=1M").returncode != 0
        _, refused = create(machine, "second", f"0:{MIB}")
        assert refused.returncode != 0
        other.end()
    finally:
        unload_engine(machine)
        unload_driver(machine)


def losses(machine: Machine) -> list[str]:
    words = [read(machine, f"{gpu}/stat").split("\n")[0].split() for gpu in (0, 1)]
    return [next(word for word in line if word.startswith("lost=")) for line in words]


def told(machine: Machine) -> list[tuple[str, int, str]]:
    found = events(machine, "event=lost", "event=back")
    return [(one["event"], one["gpu"], one["uuid"]) for one in found]


def uuid(machine: Machine, gpu: int) -> str:
    return read(machine, f"{gpu}/stat").split()[0].removeprefix("uuid=")


def test_a_lost_gpu_and_its_neighbour(staged: Stage) -> None:
    """Its container is told what the driver says; new slices of it alone are refused until it is back."""
    machine = staged.machine
    tenant = staged.slice("tenant", LIMIT)
    held = tenant.hold("alloc=1M")
    staged.processes.append(held)
    before = told(machine)
    set_knob(machine, "test_lost", "0 1")
    done = tenant.probe(f"expect={GPU_IS_LOST:#x}", "alloc=1M")
    assert done.returncode == 0, done.text
    assert losses(machine) == ["lost=1", "lost=0"]
    assert told(machine) == [*before, ("lost", 0, uuid(machine, 0))]
    _, refused = create(machine, "second", f"0:{MIB}")
    assert refused.returncode != 0
    assert "Input/output error" in refused.text or "I/O error" in refused.text
    other, done = create(machine, "third", f"1:{MIB}")
    done.check()
    staged.slices.append(other)
    assert "the driver has lost it (NV_ERR_GPU_IS_LOST)" in machine.dmesg()
    set_knob(machine, "test_lost", "0 0")
    eventually(
        lambda: losses(machine) == ["lost=0", "lost=0"],
        "the engine asks a card that a container has open once a second",
        machine.scaled(SECONDS),
    )
    assert "the driver answers for it again" in machine.dmesg()
    assert told(machine)[len(before) :] == [(event, 0, uuid(machine, 0)) for event in ("lost", "back")]
    again, done = create(machine, "second", f"0:{MIB}")
    done.check()
    staged.slices.append(again)
