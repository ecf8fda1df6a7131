# SPDX-License-Identifier: Apache-2.0
"""The GSP of NVIDIA's driver gets the module's requests: time slices, and channels to stop."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pytest

from tests.integration.commands import eventually
from tests.vm.harness.busy import late_turns, near
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import load_driver, load_engine, unload_driver, unload_engine, write
from tests.vm.harness.process import Process
from tests.vm.harness.slices import GIB, PROBE, Slice, Stage, slice_of
from tests.vm.nvidia.driver import Order, forget_orders, orders
from tests.vm.nvidia.scheduling import (
    SCHEDULE,
    SET_TIMESLICE,
    Group,
    channel_orders,
    control,
    groups_of,
    running,
    stopped,
    time_slices,
)

pytestmark = pytest.mark.real_driver

DEFAULTS = {"policy": 1, "max_inst": 20}
SLICE_US, LONG_US = 2_000, 20_000
WATCH_SECONDS = 4.0
SECONDS = 120.0
COPY_ENGINE = 9
# Calls by which a container may try to have more time, with the driver's number of each.
TRIES = {
    "interleave=2": "NVA06C_CTRL_CMD_SET_INTERLEAVE_LEVEL",
    "interleave-channel=2": "NVA06F_CTRL_CMD_SET_INTERLEAVE_LEVEL",
    "realtime=1": "NVA06C_CTRL_CMD_MAKE_REALTIME",
    "disable": "NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS",
    "restart": "NVA06F_CTRL_CMD_RESTART_RUNLIST",
    "properties=5": "NV0080_CTRL_CMD_FIFO_SET_CHANNEL_PROPERTIES",
    "runlist-policy=1": "NV2080_CTRL_CMD_FIFO_RUNLIST_SET_SCHED_POLICY",
}
NO_PERMISSION = 0x1B
TO_ROOT = 'echo "$1" >/sys/fs/cgroup/cgroup.procs'


@pytest.fixture(scope="module")
def node(machine: Machine) -> Iterator[Machine]:
    """Return the machine with NVIDIA's driver and the engine, which the tests share."""
    load_driver(machine)
    load_engine(machine, allow_zero_weight="Y")
    yield machine
    unload_engine(machine)
    unload_driver(machine)


@pytest.fixture
def staged(node: Machine) -> Iterator[Stage]:
    """Return the same, with nothing asked of the GSP yet; the test may leave nothing behind."""
    made = Stage(node)
    set_slice(node, SLICE_US)
    forget_orders(node)
    yield made
    made.clear()
    for name, value in DEFAULTS.items():
        put(node, name, value)


@pytest.fixture
def late(staged: Stage) -> Iterator[Stage]:
    """Return the same, with an engine whose thread for turns comes late."""
    with late_turns(staged.machine):
        yield staged
    staged.clear()
    unload_engine(staged.machine)
    load_engine(staged.machine, allow_zero_weight="Y")


def set_slice(machine: Machine, us: int) -> None:
    machine.write_file("/sys/module/cgpu_km/parameters/slice_us", str(us))


def put(machine: Machine, name: str, value: int) -> None:
    done = write(machine, f"0/{name}", str(value))
    assert done.returncode == 0, done.text


def container(staged: Stage, name: str, weight: int = 1) -> Slice:
    staged.slices.append(slice_of(staged.machine, name, f"0:{GIB}:{weight}"))
    return staged.slices[-1]


def rest(staged: Stage, process: Process) -> list[Group]:
    staged.processes.append(process)
    process.await_output("count ", timeout=staged.machine.scaled(SECONDS))
    return groups_of(process)


def hold(staged: Stage, tenant: Slice, *words: str) -> list[Group]:
    return rest(staged, tenant.start(PROBE, *words, "count", "hold"))


def hold_outside(staged: Stage, *words: str) -> list[Group]:
    words = (staged.machine.seen(PROBE), *words, "count", "hold")
    return rest(staged, staged.machine.start(words, input=None))


def await_slices(staged: Stage, groups: Sequence[Group], *wanted: int) -> None:
    """Wait until the last time slice that each group was given is this one."""

    def given() -> list[int]:
        seen = orders(staged.machine)
        return [(time_slices(seen, group) or [0])[-1] for group in groups]

    eventually(
        lambda: given() == list(wanted), f"time slices of {wanted}: {given()}", staged.machine.scaled(SECONDS)
    )


def of_group(seen: Sequence[Order], group: Group) -> set[int]:
    """Return what the driver was asked for a group's client."""
    return {order.command for order in seen if order.client == group.client}


@pytest.mark.enforcement
@pytest.mark.parametrize(
    # Nearest among TIMEOUT << SCALE, or below it where several groups share: of 1953 and 3906 units.
    ("policy", "first", "shared", "changed"),
    [(1, (1952, 1952), (1952, 976, 976), (1024,) * 3), (4, (1952, 3904), (1952,) * 3, (1952, 3904, 3904))],
)
def test_time_slices_follow_policy_and_weight(
    staged: Stage, policy: int, first: tuple[int, ...], shared: tuple[int, ...], changed: tuple[int, ...]
) -> None:
    """Each group gets its container's time slice, or its part of it, on any engine; a new weight counts."""
    one, two = container(staged, "light"), container(staged, "heavy", 2)
    put(staged.machine, "policy", policy)
    groups = [*hold(staged, one, "group"), *hold(staged, two, "group=2")]
    await_slices(staged, groups, *first)
    groups += hold(staged, two, f"group=1:{COPY_ENGINE}")
    await_slices(staged, groups, *shared)
    put(staged.machine, "heavy/weight", 4)
    await_slices(staged, groups, *changed)


@pytest.mark.enforcement
def test_a_containers_own_time_slice_is_the_engines(staged: Stage) -> None:
    """A container's SET_TIMESLICE succeeds and never reaches the GSP, except under policy 5; others' do."""
    tenant = container(staged, "tenant")
    (own,) = hold(staged, tenant, "group", "slice=400000", "slice=1")
    (other,) = hold_outside(staged, "group", "slice=400000")
    seen = orders(staged.machine)
    assert set(time_slices(seen, own)) == {1952}
    assert time_slices(seen, other) == [400000]
    put(staged.machine, "policy", 5)
    (own,) = hold(staged, tenant, "group", "slice=400000")
    assert time_slices(orders(staged.machine), own) == [400000]


@pytest.mark.enforcement
def test_a_container_cannot_schedule(staged: Stage) -> None:
    """Other controls that divide the time are refused to a container and reach the GSP for others."""
    numbers = {control(name) for name in TRIES.values()}
    refused = [text for word in TRIES for text in (f"expect={NO_PERMISSION:#x}", word)]
    (own,) = hold(staged, container(staged, "tenant"), "group", *refused)
    (other,) = hold_outside(staged, "group", *TRIES)
    seen = orders(staged.machine)
    assert numbers & of_group(seen, own) == set()
    assert numbers - of_group(seen, other) == set()
    assert {SCHEDULE, SET_TIMESLICE} <= of_group(seen, own)


@pytest.mark.enforcement
@pytest.mark.parametrize(("policy", "parts"), [(0, (1 / 4, 1 / 4)), (2, (1 / 3, 2 / 3)), (3, (1 / 4, 2 / 4))])
def test_channels_take_turns(staged: Stage, policy: int, parts: tuple[float, ...]) -> None:
    """The channels of one container at a time may run, for its part of the time, and no others."""
    set_slice(staged.machine, LONG_US)
    put(staged.machine, "max_inst", 4)
    one, two = container(staged, "light"), container(staged, "heavy", 2)
    put(staged.machine, "policy", policy)
    groups = [*hold(staged, one, "group=2"), *hold(staged, two, "group=3")]
    forget_orders(staged.machine)
    time.sleep(staged.machine.scaled(WATCH_SECONDS))
    found = channel_orders(orders(staged.machine))
    assert {one.channels for one in found} == {group.channels for group in groups}
    assert not any(one.scheduling_only or one.rewind for one in found)
    ran = running(found, groups)
    assert ran.at_once == 1, [(one.time, one.disable, sorted(one.channels)) for one in found]
    assert near(ran.parts, parts), ran


@pytest.mark.enforcement
def test_a_new_channel_waits_for_its_turn(late: Stage) -> None:
    """Channels of a container without weight are stopped before they are scheduled, and never let run.

    They wait for it where the thread that stops them has no processor for long.
    """
    (group,) = hold(late, container(late, "weightless", 0), "group=2")
    seen = orders(late.machine)
    scheduled = next(i for i, order in enumerate(seen) if order.command == SCHEDULE)
    assert stopped(channel_orders(seen[:scheduled])) == group.channels
    assert all(one.disable for one in channel_orders(seen))


@pytest.mark.enforcement
def test_all_run_when_the_engine_goes(staged: Stage) -> None:
    """Channels of a container that is no more are stopped, and run again when the engine is unloaded."""
    tenant = container(staged, "gone")
    (group,) = hold(staged, tenant, "group=2")
    staged.machine.shell(TO_ROOT, str(staged.processes[-1].pid))
    tenant.end()
    tenant.await_gone()
    eventually(
        lambda: stopped(channel_orders(orders(staged.machine))) == group.channels,
        "the channels are stopped",
        staged.machine.scaled(SECONDS),
    )
    unload_engine(staged.machine)
    found = channel_orders(orders(staged.machine))
    load_engine(staged.machine, allow_zero_weight="Y")
    assert stopped(found) == frozenset()
