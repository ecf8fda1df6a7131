# SPDX-License-Identifier: Apache-2.0
"""GPU time is divided in the kernel against all acts of containers, and through changes of the engine."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.integration.commands import eventually
from tests.vm.conftest import Boot
from tests.vm.harness.busy import (
    NS_PER_INSTRUCTION,
    Load,
    keep_busy,
    late_turns,
    load,
    near,
    shares,
)
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import (
    build_core,
    insmod,
    load_driver,
    load_engine,
    read,
    unload_driver,
    unload_engine,
    write,
)
from tests.vm.harness.slices import GIB, Slice, clear, set_knob, slice_of, view

pytestmark = pytest.mark.fake_driver("work on the card, which channels of a card in software do not do")

SLICE_US = 20_000  # the emulated machine's timers come every 4 ms
SET_SLICE = 'cd /sys/module/cgpu_km/parameters; echo "$1" >slice_us || :; cat slice_us'
# Calls by which a container may try to have more: it is told that its own slice is set, and no to all else.
TRIES = (
    "slice=400000", "expect=0x1b", "interleave=2", "expect=0x1b", "realtime=1",
    "expect=0x1b", "disable", "expect=0x1b", "runlist-policy=1", "schedule=0", "schedule=1",
)  # fmt: skip


@pytest.fixture(scope="module")
def machine(boot: Boot) -> Machine:
    """Return a machine whose clock goes by instructions: the host's other work changes no share."""
    counting = boot(counted=NS_PER_INSTRUCTION)
    keep_busy(counting)
    return counting


@pytest.fixture
def sliced(engine: Machine) -> Machine:
    """Return the machine with driver and engine, and with long slices."""
    assert engine.shell(SET_SLICE, str(SLICE_US)).stdout == f"{SLICE_US}\n"
    return engine


@pytest.fixture
def tenants(sliced: Machine) -> tuple[Slice, Slice]:
    """Return two containers, of which the second has twice the weight."""
    return slice_of(sliced, "light", f"0:{GIB}"), slice_of(sliced, "heavy", f"0:{GIB}:2")


def measure(machine: Machine, loads: list[Load], *wanted: float) -> None:
    found = shares(machine, loads)
    assert near(found, wanted), (
        f"{found}, and not {wanted}: {read(machine, '0/sched')}{machine.dmesg()[-800:]}"
    )


def put(machine: Machine, node: str, value: int) -> None:
    done = write(machine, node, str(value))
    assert done.returncode == 0, done.text


def test_the_slice_has_bounds(sliced: Machine) -> None:
    """The parameter takes 100 to 100000 us while loaded, and a taken value is in force."""
    wrong = [sliced.shell(SET_SLICE, text, check=False).stdout for text in ("99", "100001", "x")]
    assert wrong == [f"{SLICE_US}\n"] * 3
    assert sliced.shell(SET_SLICE, "100").stdout == "100\n"
    assert "slice=100000\n" in read(sliced, "0/sched")


@pytest.mark.enforcement
def test_time_follows_policy_and_weight(sliced: Machine, tenants: tuple[Slice, Slice]) -> None:
    """Each has its share, with more groups and scheduling controls of its own; a change counts at once."""
    light, heavy = tenants
    assert read(sliced, "0/policy") == "2\n"
    loads = [load(light, 3, *TRIES), load(heavy)]
    measure(sliced, loads, 1 / 3, 2 / 3)
    put(sliced, "0/heavy/weight", 4)
    measure(sliced, loads, 1 / 5, 4 / 5)
    put(sliced, "0/policy", 1)
    before = [int(read(sliced, f"0/{one.name}/usage")) for one in tenants]
    measure(sliced, loads, 1 / 2, 1 / 2)
    eventually(
        lambda: all(
            int(read(sliced, f"0/{one.name}/usage")) > had for one, had in zip(tenants, before, strict=True)
        ),
        "the samples count",
        sliced.scaled(20),
    )
    put(sliced, "0/max_inst", 8)
    put(sliced, "0/policy", 3)
    loads[1].process.stop()
    measure(sliced, loads[:1], 1 / 8)
    assert loads[0].process.running, loads[0].process.finished().text


@pytest.mark.enforcement
def test_time_stays_divided_through_an_upgrade_and_another_driver(
    sliced: Machine, tenants: tuple[Slice, Slice]
) -> None:
    """Another core goes on with the shares; so does the engine when the driver has been away."""
    newer = build_core(sliced, "0.1.1")
    loads = [load(tenant) for tenant in tenants]
    insmod(sliced, newer)
    assert write(sliced, "upgrade", "1").returncode == 0
    assert read(sliced, "version") == "0.1.1\n"
    measure(sliced, loads, 1 / 3, 2 / 3)
    for one in loads:
        one.process.stop()
    eventually(
        lambda: view(sliced).cards[0]["clients"] == 0, "the engine lets go of the card", sliced.scaled(20)
    )
    unload_driver(sliced)
    load_driver(sliced)
    loads = [load(tenant) for tenant in tenants]
    measure(sliced, loads, 1 / 3, 2 / 3)


@pytest.fixture
def starved(driver: Machine) -> Iterator[Machine]:
    """Return the machine with an engine that allows weight 0, and whose thread comes late."""
    load_engine(driver, allow_zero_weight="Y")
    with late_turns(driver):
        yield driver
    unload_engine(driver)


@pytest.mark.enforcement
def test_channels_do_not_run_before_their_turn(starved: Machine) -> None:
    """A new channel does not run for a moment outside of its turn, on a busy node either."""
    tenant = slice_of(starved, "weightless", f"0:{GIB}:0")
    done = tenant.probe(*["group", "submit=1:1ms"] * 8, "figures").check()
    busy = re.findall(r" busy=(\d+)", done.stdout)
    clear(starved)
    assert busy == ["0"] * 8


@pytest.mark.fake_driver("a knob of the driver")
def test_a_driver_without_the_lever_is_named(sliced: Machine, tenants: tuple[Slice, Slice]) -> None:
    """Without a way to stop channels the log and the tree say so, and policy 1 divides all the same."""
    set_knob(sliced, "test_without_gsp", 1)
    loads = [load(tenants[0], 3), load(tenants[1])]
    eventually(
        lambda: "does not do FIFO_DISABLE_CHANNELS" in sliced.dmesg(), "a line in the log", sliced.scaled(20)
    )
    assert "divided_by=nobody" in read(sliced, "0/sched")
    put(sliced, "0/policy", 1)
    measure(sliced, loads, 1 / 2, 1 / 2)
