# SPDX-License-Identifier: Apache-2.0
"""What the entries `stat` count is what happened, and none of it is lost with the daemon's process."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from cgpu.client import stat
from cgpu.client.tree import Tree
from cgpu.kmod.daemon.program import Program
from tests.daemon import versions
from tests.daemon.conftest import MakeDaemon
from tests.daemon.harness import MIB, Daemon, Sliced, next_line
from tests.daemon.upgrades import upgrade
from tests.daemon.work import Crew, release
from tests.integration.commands import eventually

GIB = 1024 * MIB
SIX = f"gpu=0:{6043 * MIB}"
REFUSED = ["alloc=7G"] * 3
FORBIDDEN = ["class=0x7001", "class=0x7002", "runlist-policy=0"]
CAPPED = "policy: 3\n"
WEIGHT, SOFT = 2, 4


def slice_stat(daemon: Daemon, sliced: Sliced) -> stat.SliceStat:
    return next(one for one in Tree(str(daemon.tree)).gpu_stat(0).slices if one.id == sliced.id)


def engine_stat(daemon: Daemon) -> stat.EngineStat:
    return Tree(str(daemon.tree)).engine_stat()


@pytest.fixture(scope="module")
def newer(others: Path) -> Program:
    """A newer version with the same layout of the state."""
    return versions.build(others, "0.2.0")


@pytest.fixture(scope="module")
def converting(others: Path) -> Program:
    """A newer version with another layout, which can read the one before."""
    return versions.build(others, "0.3.0", "-DCORE_VERSION=10u -DCORE_CONVERTS_FROM=9u")


@pytest.fixture(scope="module")
def older(others: Path) -> Program:
    """A version whose state has no counters."""
    return versions.build(others, "0.0.9", "-DCORE_VERSION=8u")


@pytest.mark.enforcement
def test_three_refused_allocations_are_three(fresh: Daemon) -> None:
    """Each refusal counts once, though the daemon looks at the driver and judges again before it refuses."""
    sliced = fresh.slice(1, SIX, "alloc=5G", "free=last", *REFUSED, "alloc=1G", "hold", until="hold")
    found = slice_stat(fresh, sliced)
    assert (found.used, found.peak, found.memsize) == (GIB, 5 * GIB, 6043 * MIB)
    assert found.refused == {"limit": 3, "card": 0, "unaccounted": 0}
    assert set(found.refused_calls.values()) == {0}
    gpu = Tree(str(fresh.tree)).gpu_stat(0)
    assert gpu.used == GIB
    assert gpu.promised == 6043 * MIB
    assert gpu.memtotal == 15109 * MIB
    assert gpu.refused == found.refused
    sliced.finish("\n")


@pytest.mark.enforcement
def test_card_that_is_full_is_another_reason(fresh: Daemon) -> None:
    """What the driver refuses, as somebody outside of slices has the card's memory, is told apart."""
    outside = subprocess.Popen(
        fresh.outside("alloc=12G", "hold"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    next_line(outside, "hold", [])
    sliced = fresh.slice(1, SIX, "alloc=5G", "alloc=5G", "alloc=7G", "hold", until="hold")
    assert slice_stat(fresh, sliced).refused == {"limit": 1, "card": 2, "unaccounted": 0}
    assert slice_stat(fresh, sliced).peak == 0
    outside.communicate("\n", timeout=60)
    sliced.finish("\n")


def test_calls_are_counted_once(fresh: Daemon) -> None:
    """Executed and continued calls add up to what the daemon itself counts."""
    sliced = fresh.slice(1, SIX, "info", "alloc=1G", "info", "free=last", "hold", until="hold")
    engine = fresh.status()["engine"]
    found = engine_stat(fresh)
    assert found.executed == engine["executed"]
    assert found.notified >= engine["supervised"] > 0
    assert found.refused_calls["call"] == 0
    assert found.registered == 1
    assert (found.containers, found.containers_max) == (1, 512)
    sliced.finish("\n")


def counters(daemon: Daemon, sliced: Sliced) -> list[int]:
    """Return all that may never become smaller."""
    one, gpu, engine = slice_stat(daemon, sliced), Tree(str(daemon.tree)).gpu_stat(0), engine_stat(daemon)
    return [
        one.peak,
        one.usage,
        one.throttled,
        *one.refused.values(),
        *one.refused_calls.values(),
        gpu.usage,
        *gpu.refused.values(),
        engine.notified,
        engine.executed,
        engine.continued,
        engine.answered,
        engine.refused,
        engine.registered,
        engine.restarts,
        engine.upgrades,
        engine.reloads,
        *engine.refused_calls.values(),
        *(number for one in engine.latencies.values() for number in (one.ns, *one.calls)),
    ]


def no_smaller(daemon: Daemon, sliced: Sliced, before: list[int]) -> list[int]:
    after = counters(daemon, sliced)
    assert all(new >= old for new, old in zip(after, before, strict=True)), (before, after)
    return after


def grown(daemon: Daemon, sliced: Sliced, before: list[int]) -> list[int]:
    """Have nothing become smaller, and the time of a slice that computes go on to be counted."""
    old = slice_stat(daemon, sliced)
    after = no_smaller(daemon, sliced, before)

    def counts() -> bool:
        new = slice_stat(daemon, sliced)
        return new.usage > old.usage and new.throttled > old.throttled

    eventually(counts, "the slice's time is counted no more", instead=daemon.left)
    return after


def reload(daemon: Daemon, settings: str) -> None:
    """Have the engine take other settings."""
    (daemon.run.parent / "config.yaml").write_text(settings)
    os.kill(daemon.pid(), signal.SIGHUP)
    eventually(lambda: "configuration reloaded" in daemon.log(), "not reloaded", instead=daemon.log)


@pytest.mark.enforcement
def test_counters_survive_every_end(make_daemon: MakeDaemon, newer: Program, converting: Program) -> None:
    """After a reload, kill -9, and upgrades with the same and another layout none is smaller.

    The slice computes throughout, has a part of the card, and was refused memory, classes and controls.
    """
    daemon = make_daemon("T4", CAPPED)
    sliced = daemon.slice(
        1, f"{SIX}:8", "alloc=5G", "free=last", *REFUSED, *FORBIDDEN, "group", "busy=600s:1ms"
    )
    sliced.line("group")
    eventually(lambda: slice_stat(daemon, sliced).usage > 0, "it computes")
    one = slice_stat(daemon, sliced)
    assert (one.refused["limit"], one.refused_calls["class"], one.refused_calls["control"]) == (3, 2, 1)
    before = grown(daemon, sliced, counters(daemon, sliced))
    reload(daemon, f"{CAPPED}drift_tolerance: 1000000000\n")
    assert engine_stat(daemon).reloads == 1
    before = grown(daemon, sliced, before)
    daemon.crash()
    before = grown(daemon, sliced, before)
    assert engine_stat(daemon).restarts == 1
    upgrade(daemon, newer)
    before = grown(daemon, sliced, before)
    upgrade(daemon, converting)
    before = grown(daemon, sliced, before)
    daemon.crash()
    grown(daemon, sliced, before)
    engine = engine_stat(daemon)
    assert (engine.reloads, engine.restarts, engine.upgrades) == (1, 2, 2)
    last = slice_stat(daemon, sliced)
    assert last.peak >= 5 * GIB
    assert (last.refused, last.refused_calls) == (one.refused, one.refused_calls)
    daemon.enter(sliced, "alloc=7G", FORBIDDEN[0]).finish()
    last = slice_stat(daemon, sliced)
    assert (last.refused["limit"], last.refused_calls["class"]) == (4, 3)
    sliced.kill()


def test_version_without_counters_hands_over(fresh: Daemon, older: Program) -> None:
    """Counters begin with what a container has where a version hands over that counts nothing."""
    assert fresh.command("--stop").returncode == 0
    started = subprocess.run(
        older.command(*fresh.options()), capture_output=True, text=True, timeout=60, check=False
    )
    assert started.returncode == 0, started.stderr
    sliced = fresh.slice(1, SIX, "alloc=1G", "hold", "alloc=1G", "free=last", "hold=30", until="hold")
    upgrade(fresh)
    assert (slice_stat(fresh, sliced).used, slice_stat(fresh, sliced).peak) == (GIB, GIB)
    assert engine_stat(fresh).upgrades == 1
    release(sliced)
    sliced.line("hold")
    assert (slice_stat(fresh, sliced).used, slice_stat(fresh, sliced).peak) == (GIB, 2 * GIB)
    sliced.kill()


@pytest.mark.enforcement
@pytest.mark.parametrize("policy", [WEIGHT, SOFT], ids=["channels", "timeslices"])
def test_who_competes_is_throttled_while_the_other_runs(daemon: Daemon, policy: int) -> None:
    """The time that a slice waited is about that which the other one had."""
    crew = Crew.at_work(daemon, policy, 1, 3, phases=3, seconds=2.5)
    one, two = crew.hands
    crew.shares()
    begun = [slice_stat(daemon, hand.sliced) for hand in (one, two)]
    crew.shares()
    ended = [slice_stat(daemon, hand.sliced) for hand in (one, two)]
    used = [(new.usage - old.usage) / 1e9 for new, old in zip(ended, begun, strict=True)]
    waited = [(new.throttled - old.throttled) / 1e9 for new, old in zip(ended, begun, strict=True)]
    assert waited[0] == pytest.approx(used[1], rel=0.25, abs=0.1)
    assert waited[1] == pytest.approx(used[0], rel=0.25, abs=0.1)
    crew.shares()
