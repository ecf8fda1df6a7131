# SPDX-License-Identifier: Apache-2.0
"""Times of calls, and numbers of those under way: the root's entry `stat` has what happened."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import pytest

from cgpu.client.stat import EngineStat, parse_engine
from cgpu.client.tree import Tree
from tests.daemon.harness import MIB, Daemon, Sliced
from tests.daemon.work import release
from tests.integration.commands import eventually

SIX = f"gpu=0:{6043 * MIB}"
OWN_THREADS = 2  # of Python in the daemon: the loop and the tree
SHARE = 4  # workers that one container may keep busy
SLOW = 0.5
LONG = 9  # the bucket of what takes 65 to 262 ms; those behind it are longer


def stat(daemon: Daemon) -> EngineStat:
    return parse_engine(Tree(str(daemon.tree)).read("stat"))


def when_looked_at(daemon: Daemon) -> None:
    """Wait until the daemon has looked for the filter of what was started, which interrupts its calls."""
    pid = int(daemon.status()["pid"])
    # The answer came after the listener: a look that is under way has its thread by now.
    eventually(lambda: python_threads(pid) == OWN_THREADS, "no look is under way")


def python_threads(pid: int) -> int:
    """Return how many threads have the name of the process, as the engine's own ones do not."""
    names = []
    for path in Path(f"/proc/{pid}/task").glob("*/comm"):
        with suppress(OSError):  # it has ended
            names.append(path.read_text())
    return names.count(Path(f"/proc/{pid}/comm").read_text())


def when_all_are_over(daemon: Daemon) -> EngineStat:
    """Return the counters when no call is under way."""
    eventually(lambda: stat(daemon).calls_now == 0, "all calls are over")
    return stat(daemon)


def counts(found: EngineStat) -> dict[str, int]:
    return {outcome: sum(one.calls) for outcome, one in found.latencies.items()}


@pytest.mark.enforcement
def test_each_call_is_in_one_bucket(fresh: Daemon) -> None:
    """The buckets hold as many calls as the engine counts by what became of them, and as it was told of.

    Each of seven refused allocations is one call that was answered without the driver.
    """
    assert set(counts(stat(fresh)).values()) == {0}
    words = ("hold", *["info"] * 20, "alloc=1G", "free=last", *["alloc=7G"] * 7, "hold=300")
    sliced = fresh.slice(1, SIX, *words, until="hold")
    when_looked_at(fresh)
    before = when_all_are_over(fresh)
    release(sliced)
    sliced.line("hold")
    found = when_all_are_over(fresh)
    calls, engine = counts(found), fresh.status()["engine"]
    assert calls["executed"] == found.executed == engine["executed"] > 20
    assert calls["continued"] >= found.continued > 0
    assert calls["answered"] - counts(before)["answered"] == found.refused - before.refused == 7
    assert sum(calls.values()) - sum(counts(before).values()) == found.notified - before.notified > 20
    assert found.notified >= engine["supervised"] > 0
    assert all(one.ns >= sum(one.calls) * 100 for one in found.latencies.values())
    sliced.kill()


def test_slow_call_is_in_a_high_bucket(fresh: Daemon) -> None:
    """A call that waits for the driver is under way meanwhile, and afterwards among the long ones."""
    sliced = fresh.slice(1, SIX, "info", "hold", "alloc=1G", "hold=300", until="hold")
    before = when_all_are_over(fresh).latencies["executed"]
    with fresh.stopped_driver():
        release(sliced)
        eventually(lambda: stat(fresh).calls_now == 1, "the call waits", instead=lambda: stat(fresh))
        time.sleep(SLOW)
    sliced.line("hold")
    after = stat(fresh).latencies["executed"]
    slow = [new - old for new, old in zip(after.calls, before.calls, strict=True)][LONG + 1 :]
    # On a machine that has more to do others may be slow as well.
    assert sum(slow) >= 1
    assert after.ns - before.ns > SLOW * 1e9
    when_all_are_over(fresh)
    sliced.kill()


def test_queue_of_a_container_that_has_its_share(fresh: Daemon) -> None:
    """Four of a container's seven calls have a worker, and three wait until these are over.

    Their filters receive nothing more, nor does that of the last call which got a worker; nor do others that
    were heard while short calls had workers.
    """
    words = ("alloc=64M", "hold", "alloc=64M", "hold=300")
    first = fresh.slice(1, SIX, *words, until="hold")
    callers: list[Sliced] = [first, *(fresh.enter(first, *words, until="hold") for _ in range(6))]
    assert stat(fresh).queues == {"listeners_held": 0, "answers_kept": 0, "timeslices_left": 0}
    with fresh.stopped_driver():
        for one in callers:
            release(one)
        held = range(len(callers) - SHARE + 1, len(callers) + 1)
        eventually(
            lambda: stat(fresh).calls_now == SHARE and stat(fresh).queues["listeners_held"] in held,
            "the others wait",
            instead=lambda: stat(fresh),
        )
    for one in callers:
        one.line("hold")
    found = stat(fresh)
    assert found.queues["listeners_held"] == 0
    assert found.workers is not None
    assert found.workers_max is not None
    assert SHARE < found.workers <= found.workers_max
    for one in callers:
        one.kill()
