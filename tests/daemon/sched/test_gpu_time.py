# SPDX-License-Identifier: Apache-2.0
"""Shares of GPU time on simulated cards: greedy containers get what the policy says, by the card's count."""

from __future__ import annotations

import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.daemon.harness import MIB
from tests.daemon.work import KERNEL, Crew, Hand, near, release
from tests.integration.commands import eventually

if TYPE_CHECKING:
    from tests.daemon.conftest import Drive, MakeDaemon
    from tests.daemon.harness import Daemon

FAIR, PREEMPTIVE, WEIGHT, FIXED, SOFT, NATIVE = range(6)


def shares(daemon: Daemon, policy: int, *weights: int) -> list[float]:
    """Return what containers of these weights get."""
    return Crew.at_work(daemon, policy, *weights).shares()


@pytest.mark.enforcement
@pytest.mark.parametrize(
    ("policy", "weights", "expected"),
    [
        (FAIR, (1, 3), (1 / 20, 1 / 20)),
        (WEIGHT, (1, 2), (1 / 3, 2 / 3)),
        (FIXED, (5, 10), (1 / 4, 1 / 2)),
        (FIXED, (5,), (1 / 4,)),
        (SOFT, (1, 2), (1 / 3, 2 / 3)),
    ],
    ids=["fair", "weight", "fixed", "fixed-alone", "soft"],
)
def test_a_policy_divides(
    daemon: Daemon, policy: int, weights: tuple[int, ...], expected: tuple[float, ...]
) -> None:
    """Each container has its share, alone too where the policy says so."""
    assert shares(daemon, policy, *weights) == [near(share) for share in expected]


def test_native_is_the_drivers(daemon: Daemon) -> None:
    """Under policy 5 weights mean nothing, and nothing is set."""
    before = daemon.status()["engine"]
    assert shares(daemon, NATIVE, 1, 3) == [near(0.5), near(0.5)]
    after = daemon.status()["engine"]
    assert (after["gates"], after["time_slices"]) == (before["gates"], before["time_slices"])


@pytest.mark.enforcement
@pytest.mark.parametrize("policy", [PREEMPTIVE, WEIGHT])
@pytest.mark.parametrize(
    ("other", "part"),
    [({"high": True}, 0.8), ({"groups": 6}, 0.5), ({"processes": 5}, 0.5)],
    ids=["high priority", "six channel groups", "five processes"],
)
def test_what_the_other_one_has(daemon: Daemon, policy: int, other: dict[str, Any], part: float) -> None:
    """High priority has its ratio, 80 of 100; more channel groups or processes are not more time."""
    crew = Crew(daemon, policy, seconds=2.5 if "processes" in other else 2.0)
    crew.add(1)
    crew.add(1, **other)
    crew.begin()
    assert crew.shares() == [near(1 - part), near(part)]


@pytest.mark.slow
@pytest.mark.enforcement
def test_priority_is_not_kept_for_the_idle(daemon: Daemon) -> None:
    """Who has it and does nothing leaves the card to others, and has its ratio soon after it begins."""
    crew = Crew(daemon, PREEMPTIVE, phases=5, seconds=2.5)
    crew.add(1)
    idle = daemon.slice(40, f"gpu=0:{2048 * MIB}:1:1", "group", "hold", f"busy=9s:{KERNEL}", until="hold")
    crew.begin()
    # Of a card that has just begun to work the first two looks are not whole.
    crew.shares()
    crew.shares()
    assert crew.shares() == [near(1.0)]
    release(idle)
    crew.shares()
    assert crew.shares() == [near(0.2)]
    idle.process.kill()


@pytest.mark.enforcement
@pytest.mark.parametrize("policy", [WEIGHT, SOFT])
def test_weight_zero_gets_nothing(make_daemon: MakeDaemon, policy: int) -> None:
    """Not even a kernel, also where time is left over."""
    daemon = make_daemon("T4", "allow_zero_weight: true\n")
    crew = Crew.at_work(daemon, policy, 0, 1)
    nothing, all_of_it = crew.shares()
    assert nothing == 0
    assert all_of_it > 0.9


@pytest.mark.enforcement
@pytest.mark.parametrize("policy", [WEIGHT, SOFT])
def test_a_weight_changes_at_work(daemon: Daemon, policy: int) -> None:
    """The new shares hold for who works already, by channel enable and by timeslices."""
    crew = Crew.at_work(daemon, policy, 1, 1, phases=2, seconds=1.5)
    one, _ = crew.hands
    assert crew.shares() == [near(0.5), near(0.5)]
    crew.weigh(one, 3)
    assert crew.shares() == [near(0.75), near(0.25)]


@pytest.mark.enforcement
def test_the_policy_changes_at_work(daemon: Daemon) -> None:
    """From timeslices to channel enable, from there to the driver's own, and back to time slices."""
    crew = Crew.at_work(daemon, SOFT, 1, 4, phases=4, seconds=1.5)
    assert crew.shares() == [near(0.2), near(0.8)]
    crew.policy(FIXED)
    assert crew.shares() == [near(1 / 20), near(4 / 20)]
    crew.policy(NATIVE)
    had = crew.shares()
    assert sum(had) > 0.9
    crew.policy(SOFT)
    assert crew.shares() == [near(0.2), near(0.8)]


def used(daemon: Daemon, hand: Hand) -> int:
    """Return the tree's figure for a container, in ns."""
    return int(daemon.read(f"0/{hand.sliced.id[:12]}/usage"))


def test_usage_by_gates_is_the_cards_count(daemon: Daemon) -> None:
    """The tree's figure agrees with the card's."""
    crew = Crew.at_work(daemon, WEIGHT, 1, 3, phases=2)
    one, _ = crew.hands
    before = used(daemon, one)
    had = one.share()
    assert (used(daemon, one) - before) / 2e9 == pytest.approx(had, rel=0.15, abs=0.03)


def next_figure(daemon: Daemon, hand: Hand) -> int:
    """Wait until the figure changes, and return it."""
    before = used(daemon, hand)
    eventually(lambda: used(daemon, hand) != before, "the figure does not change")
    return used(daemon, hand)


def test_usage_by_samples_is_the_cards_count(daemon: Daemon) -> None:
    """Where the card's time slices divide the time, its samples of utilisation tell who had it."""
    crew = Crew.at_work(daemon, SOFT, 1, 3, seconds=8)
    one, _ = crew.hands
    next_figure(daemon, one)
    start, since = next_figure(daemon, one), time.monotonic()
    time.sleep(2)
    end = next_figure(daemon, one)
    assert (end - start) / 1e9 / (time.monotonic() - since) == pytest.approx(0.25, rel=0.25)
    assert daemon.read("0/sched").startswith("divided_by=time_slices usage_from=samples ")
    assert crew.shares() == [near(0.25), near(0.75)]


def test_usage_by_more_samples_than_the_driver_keeps(daemon: Daemon) -> None:
    """With so many busy processes its ring is full in half a second, so it is read more often."""
    crew = Crew(daemon, SOFT, seconds=9)
    one, many = crew.add(1), crew.add(1, processes=20)
    crew.begin()
    eventually(lambda: used(daemon, many) > 10**9, "the many do not work")
    start, since = next_figure(daemon, one), time.monotonic()
    time.sleep(2)
    end = next_figure(daemon, one)
    assert (end - start) / 1e9 / (time.monotonic() - since) == pytest.approx(0.5, rel=0.25)
    assert daemon.read("0/sched").startswith("divided_by=time_slices usage_from=samples ")


def turns_in_a_second(daemon: Daemon) -> int:
    """Return how many decisions were carried out."""
    before: int = daemon.status()["engine"]["turns"]
    time.sleep(1)
    after: int = daemon.status()["engine"]["turns"]
    return after - before


def test_nobody_works_nothing_is_done(make_daemon: MakeDaemon) -> None:
    """Without channels nothing wakes the daemon for turns, with a container there or without one."""
    daemon = make_daemon("T4", "enforce: true\n")
    assert turns_in_a_second(daemon) == 0
    idle = daemon.slice(9, f"gpu=0:{64 * MIB}:5", "alloc=64K", "hold", until="hold")
    daemon.write("0/policy", f"{WEIGHT}\n")
    time.sleep(0.1)
    assert turns_in_a_second(daemon) == 0
    crew = Crew(daemon, WEIGHT, alone=False)
    hand = crew.add(5)
    crew.begin()
    # Slices of 2 ms, five in a row for each.
    assert turns_in_a_second(daemon) > 50
    assert hand.share() == near(0.5)
    eventually(lambda: daemon.instances() == [idle.id[:12]], "the one that worked has gone")
    time.sleep(0.1)
    assert turns_in_a_second(daemon) == 0


def test_a_driver_without_the_lever(make_daemon: MakeDaemon, drive: Drive) -> None:
    """A driver that stops no channels is named once in the log, and the tree says so; time slices work."""
    drive("580.142", options=("--without-gsp",))
    daemon = make_daemon("T4", "enforce: true\n")
    assert shares(daemon, SOFT, 1, 3) == [near(0.25), near(0.75)]
    assert sum(shares(daemon, WEIGHT, 1, 3)) > 0.9
    assert daemon.log().count("the driver does not do FIFO_DISABLE_CHANNELS (status 0x56)") == 1
    assert daemon.read("0/sched").startswith("divided_by=nobody ")


def test_a_driver_without_samples(make_daemon: MakeDaemon, drive: Drive) -> None:
    """Before 525 the driver tells nothing that can be asked for: shares hold, and usage is not known."""
    drive("515.43.04", "515.43.04")
    daemon = make_daemon("T4", "enforce: true\n")
    crew = Crew.at_work(daemon, SOFT, 1, 3)
    one, _ = crew.hands
    time.sleep(1.5)
    assert daemon.read("0/sched").startswith("divided_by=time_slices usage_from=none ")
    assert used(daemon, one) == 0
    assert crew.shares() == [near(0.25), near(0.75)]


def test_a_driver_that_goes(make_daemon: MakeDaemon) -> None:
    """Channel changes are tried again once a second, not all the time, and the log says so."""
    daemon = make_daemon("T4", "enforce: true\n")
    daemon.write("0/policy", f"{WEIGHT}\n")
    held = [daemon.slice(n, f"gpu=0:{512 * MIB}:1", "group", "hold") for n in (1, 2)]
    for one in held:
        one.line("hold")
    assert turns_in_a_second(daemon) > 100
    os.kill(int(json.loads((daemon.run / "sim.json").read_text())["pid"]), signal.SIGKILL)
    eventually(lambda: daemon.status()["engine"]["gates_failed"] > 0, "nothing failed")
    assert turns_in_a_second(daemon) < 10
    assert "GPU 0: channels cannot be enabled or disabled, they stay as they are: " in daemon.log()
