# SPDX-License-Identifier: Apache-2.0
"""Scheduling controls and doorbells through the server: who may use which, and what they do by the clock."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator

import pytest

from tests.sim.abi import Status
from tests.sim.conftest import Start
from tests.sim.rm.test_objects import in_child
from tests.sim.support import Sim, fields
from tests.sim.worker import (
    CHANNEL_LEVEL,
    LEVEL,
    MS,
    QUEUE,
    REALTIME,
    RESTART,
    RUNLIST_POLICY,
    SET_COMPUTE,
    US,
    Group,
    Worker,
)

CHANNEL_LEVEL_FORM = "NVA06F_CTRL_INTERLEAVE_LEVEL_PARAMS"
POLICY_FORM = "NV2080_CTRL_FIFO_RUNLIST_SET_SCHED_POLICY_PARAMS"
COMPUTE_FORM = "NV2080_CTRL_GPU_SET_COMPUTE_POLICY_CONFIG_PARAMS"
LEVEL_FORM, REALTIME_FORM = "NVA06C_CTRL_INTERLEAVE_LEVEL_PARAMS", "NVA06C_CTRL_MAKE_REALTIME_PARAMS"


@pytest.fixture
def worker(sim: Sim) -> Iterator[Worker]:
    """Return a client that can ring doorbells; it leaves the card empty."""
    with sim.client() as client:
        made = Worker(client)
        yield made
        made.close()


def busy_group(worker: Worker, length: int = 10 * MS) -> Group:
    """Return a group with work for seconds."""
    group = worker.group()
    worker.ring(group.channel, QUEUE, length)
    return group


def shares(worker: Worker, *groups: Group, seconds: float = 0.2) -> list[float]:
    """Return which parts of a time by the clock were of which groups.

    The card computes what it has done until now: a busy machine changes only how long the time is.
    """
    before = [worker.figures(group.channel) for group in groups]
    time.sleep(seconds)
    after = [worker.figures(group.channel) for group in groups]
    pairs = zip(before, after, strict=True)
    return [(end.busy - start.busy) / (end.now - start.now) for start, end in pairs]


def test_the_card_follows_the_clock(worker: Worker) -> None:
    """Its time is the machine's, and work takes as long as it says."""
    start = time.monotonic_ns()
    group = worker.group()
    worker.ring(group.channel, 50, MS)
    figures = worker.wait(group.channel, 50)
    assert 50 * MS <= figures.now - start <= time.monotonic_ns() - start
    assert figures.busy == 50 * MS
    busy_group(worker)
    assert shares(worker, busy_group(worker))[0] == pytest.approx(0.49, abs=0.03)


def test_stopping_waits_for_the_kernel(worker: Worker) -> None:
    """A call that stops a channel returns when what cannot be interrupted has ended; nothing runs after."""
    group = worker.group()
    worker.ring(group.channel, 20, 30 * MS, 0)
    time.sleep(0.01)
    assert worker.disable(group.channel) == Status.OK
    stopped = worker.figures(group.channel)
    assert stopped.completed >= 1
    assert stopped.busy == stopped.completed * 30 * MS
    time.sleep(0.05)
    assert worker.figures(group.channel).busy == stopped.busy


def set_policy(worker: Worker, policy: int, flags: int = 0) -> int:
    """Set the policy of the card's runlists."""
    return worker.control(
        worker.client.subdevice, RUNLIST_POLICY, POLICY_FORM, schedPolicy=policy, flags=flags
    )


def test_rights(worker: Worker) -> None:
    """What can starve others needs CAP_SYS_NICE or CAP_SYS_ADMIN, and the compute policy CAP_SYS_ADMIN."""
    group = worker.group()
    client = worker.client
    calls: list[Callable[[], int]] = [
        lambda: worker.control(group.handle, LEVEL, LEVEL_FORM),
        lambda: worker.control(group.handle, REALTIME, REALTIME_FORM),
        lambda: worker.control(group.channel, CHANNEL_LEVEL, CHANNEL_LEVEL_FORM),
        lambda: worker.control(group.channel, RESTART, "NVA06F_CTRL_RESTART_RUNLIST_PARAMS"),
        lambda: set_policy(worker, 0),
        lambda: worker.control(client.subdevice, SET_COMPUTE, COMPUTE_FORM, config__data__timeslice=2),
    ]

    def without_rights() -> int:
        os.setresuid(65534, 65534, 65534)
        assert worker.timeslice(group.handle, 1) == Status.OK
        return 0 if {call() for call in calls} == {Status.INSUFFICIENT_PERMISSIONS} else 1

    assert in_child(without_rights) == 0
    assert [call() for call in calls] == [Status.OK] * len(calls)


def test_the_nodes_that_ring(sim: Sim, worker: Worker) -> None:
    """A card's node that is tied to the client's nvidiactl: not nvidiactl itself, and no other."""
    group = worker.group()
    record = worker.record(group.channel, 1, US)
    with pytest.raises(OSError, match=rf"Errno {errno.EINVAL}\b"):
        os.pwrite(worker.client.ctl, record, 0)
    with pytest.raises(OSError, match=rf"Errno {errno.EINVAL}\b"):
        os.pread(worker.client.ctl, 40, 0)
    loose = sim.open("nvidia0")
    with pytest.raises(OSError, match=rf"Errno {errno.EPERM}\b"):
        os.pwrite(loose, record, 0)
    os.close(loose)
    with pytest.raises(OSError, match=rf"Errno {errno.ENODATA}\b"):
        worker.read()
    # A plain write(2), in a process that got the file: as with a mapped page, who stores does not count.
    assert in_child(lambda: 0 if os.write(worker.node, record * 3) == 3 * len(record) else 1) == 0
    assert worker.wait(group.channel, 3).completed == 3
    with pytest.raises(OSError, match=rf"Errno {errno.EINVAL}\b"):
        os.pread(worker.node, 39, 0)


def test_what_a_killed_process_leaves(sim: Sim, worker: Worker) -> None:
    """Its groups end with its files, and the card goes on with others."""
    group = busy_group(worker)
    sim.lines("group=4", "submit=1000:1s:0", "exit-dirty")
    time.sleep(0.05)
    assert shares(worker, group)[0] == pytest.approx(1, abs=0.01)


def test_samples_name_processes(worker: Worker) -> None:
    """Each by its number; a pid namespace of one's own has its own numbers."""
    sim = worker.client.sim
    words = ("submit=1000:10ms", "busy=500ms:1ms", "samples")
    done = sim.probe("group", *words)
    pid = next(fields(line)["pid"] for line in done.stdout.splitlines() if line.startswith("busy"))
    mine = [fields(line) for line in done.stdout.splitlines() if line.startswith("sample ")][-2:]
    assert {(sample["pid"], int(sample["util"]) > 9000) for sample in mine} == {(pid, True)}
    inside = sim.run_command("/usr/bin/unshare", "--pid", "--fork", *sim.command("group", *words))
    last = [fields(line)["pid"] for line in inside.stdout.splitlines() if line.startswith("sample ")][-1]
    assert last == "1", inside.stdout


@pytest.mark.parametrize("version", ["515.43.04", "615.71.09"])
def test_controls_of_a_version(start: Start, version: str) -> None:
    """The oldest and the newest driver take each control in their layout, and tell the slice that was set."""
    sim = start("T4", version)
    lines = sim.lines(
        *("group=2", "submit=3:10us", "drain=10s", "slice=7", "preempt=1000", "interleave=2", "realtime=1"),
        *("realtime=0", "interleave-channel=1", "restart=1", "properties=900", "schedule=0"),
        *("schedule-channel=1", "schedule=1", "bind=1", "disable=1", "enable", "runlist-policy=1"),
        *("runlist-policy=0:1", "compute-policy=1", "scheduling"),
    )
    assert "slice=7 compute-policy=1 scheduling status=0x0" in "\n".join(lines)
