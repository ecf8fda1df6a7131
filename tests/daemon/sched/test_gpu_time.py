# SPDX-License-Identifier: Apache-2.0
"""Shares of GPU time on simulated cards: greedy containers get what the policy says, by the card's count."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.daemon.harness import MIB
from tests.daemon.work import KERNEL, Crew, Hand, count_of, rate_of, release
from tests.integration.commands import eventually
from tests.policies import FAIR, FIXED, NATIVE, PREEMPTIVE, SOFT, WEIGHT

if TYPE_CHECKING:
    from tests.daemon.conftest import Drive, MakeDaemon
    from tests.daemon.harness import Daemon

NS = 1e9


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
    Crew.at_work(daemon, policy, *weights).await_shares(*expected)


@pytest.mark.enforcement
@pytest.mark.parametrize("policy", [PREEMPTIVE, WEIGHT])
@pytest.mark.parametrize(
    ("other", "part"),
    [({"high": True}, 0.8), ({"groups": 6}, 0.5), ({"processes": 5}, 0.5)],
    ids=["high priority", "six channel groups", "five processes"],
)
def test_what_the_other_one_has(daemon: Daemon, policy: int, other: dict[str, Any], part: float) -> None:
    """High priority has its ratio, 80 of 100; more channel groups or processes are not more time."""
    crew = Crew(daemon, policy)
    crew.add(1)
    crew.add(1, **other)
    crew.begin()
    crew.await_shares(1 - part, part)


@pytest.mark.enforcement
@pytest.mark.parametrize("policy", [WEIGHT, SOFT])
def test_a_weight_changes_at_work(daemon: Daemon, policy: int) -> None:
    """The new shares hold for containers that work already, by channel enable and by timeslices."""
    crew = Crew.at_work(daemon, policy, 1, 1)
    crew.await_shares(0.5, 0.5)
    crew.weigh(crew.hands[0], 3)
    crew.await_shares(0.75, 0.25)


@pytest.mark.enforcement
def test_the_policy_changes_at_work(daemon: Daemon) -> None:
    """From timeslices to channel enable, from there to the driver's own, and back to time slices."""
    crew = Crew.at_work(daemon, SOFT, 1, 4)
    crew.await_shares(0.2, 0.8)
    crew.policy(FIXED)
    crew.await_shares(1 / 20, 4 / 20)
    crew.policy(NATIVE)
    crew.await_shares(0.5, 0.5)
    crew.policy(SOFT)
    crew.await_shares(0.2, 0.8)


def used(daemon: Daemon, hand: Hand) -> int:
    return int(daemon.read(f"0/{hand.sliced.id[:12]}/usage"))


def await_usage(daemon: Daemon, crew: Crew) -> None:
    """Wait until the tree's figure of the first container has grown by what the card has counted.

    The figure follows once in a second, so it is the nearer the longer both have counted.
    """
    hand = crew.hands[0]
    crew.shares()
    eventually(lambda: used(daemon, hand) > 0, "the figure does not begin")
    crew.shares()
    figure, busy = used(daemon, hand), hand.busy
    crew.await_phase(
        lambda _: used(daemon, hand) - figure == pytest.approx(hand.busy - busy, rel=0.2),
        "a figure that has grown as the card's count",
    )


@pytest.mark.parametrize(
    ("policy", "source"),
    [(WEIGHT, "divided_by=gates "), (SOFT, "divided_by=time_slices usage_from=samples ")],
)
def test_usage_is_the_cards_count(daemon: Daemon, policy: int, source: str) -> None:
    """The tree's figure agrees with the card's: by channel enable, or by samples where timeslices divide."""
    crew = Crew.at_work(daemon, policy, 1, 3)
    await_usage(daemon, crew)
    assert daemon.read("0/sched").startswith(source)
    crew.await_shares(0.25, 0.75)


def test_usage_by_more_samples_than_the_driver_keeps(daemon: Daemon) -> None:
    """With so many busy processes its ring is full in half a second, so it is read more often."""
    crew = Crew(daemon, SOFT)
    crew.add(1)
    words = ("hold", f"busy=600s:{KERNEL}:1ns:20")
    many = daemon.slice(40, f"gpu=0:{2048 * MIB}:1", *words, until="hold")
    crew.begin()
    release(many)
    eventually(lambda: int(daemon.read(f"0/{many.id[:12]}/usage")) > NS, "the many do not work")
    await_usage(daemon, crew)
    assert daemon.read("0/sched").startswith("divided_by=time_slices usage_from=samples ")


def await_turns(daemon: Daemon, many: int) -> None:
    before = count_of(daemon, "turns")
    eventually(lambda: count_of(daemon, "turns") >= before + many, f"there are no {many} turns")


def test_nobody_works_nothing_is_done(make_daemon: MakeDaemon) -> None:
    """Without channels nothing wakes the daemon for turns, with a container there or without one."""
    daemon = make_daemon("T4", "enforce: true\n")
    assert rate_of(daemon, "turns") == 0
    idle = daemon.slice(9, f"gpu=0:{64 * MIB}:5", "alloc=64K", "hold", until="hold")
    daemon.write("0/policy", f"{WEIGHT}\n")
    eventually(lambda: rate_of(daemon, "turns") == 0, "an idle container has turns")
    crew = Crew(daemon, WEIGHT, alone=False)
    hand = crew.add(5)
    crew.begin()
    await_turns(daemon, 50)
    crew.await_shares(0.5)
    hand.sliced.kill()
    eventually(lambda: daemon.instances() == [idle.id[:12]], "the one that worked has gone")
    eventually(lambda: rate_of(daemon, "turns") == 0, "an idle container has turns again")


def test_a_driver_without_the_lever(make_daemon: MakeDaemon, drive: Drive) -> None:
    """A driver that stops no channels is named once in the log, and the tree says so; time slices work."""
    drive("580.142", options=("--without-gsp",))
    daemon = make_daemon("T4", "enforce: true\n")
    Crew.at_work(daemon, SOFT, 1, 3).await_shares(0.25, 0.75)
    Crew.at_work(daemon, WEIGHT, 1, 3).await_phase(lambda had: sum(had) > 0.9, "all of the card")
    assert daemon.log().count("the driver does not do FIFO_DISABLE_CHANNELS (status 0x56)") == 1
    assert daemon.read("0/sched").startswith("divided_by=nobody ")
