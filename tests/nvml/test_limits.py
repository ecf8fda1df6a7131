# SPDX-License-Identifier: Apache-2.0
"""The memory backend "driver": limits are the driver's, set on each container's cgroup.

The library is a fake (nvml.c) over simulated cards, which refuse by what it sets. Nothing here has met a
real card.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from tests.daemon.harness import MIB, Sliced, long_id
from tests.daemon.upgrades import Steady, upgrade
from tests.daemon.work import Crew, near
from tests.integration.commands import eventually
from tests.nvml.harness import LimitedDaemon

pytestmark = pytest.mark.root

LIMIT = 6043 * MIB
SLICE = f"gpu=0:{LIMIT}"
OVER = "expect=0x8d"  # the driver's own status for a hard limit; the core's is 0x51
WELL = "expect=0"
DENIED = 0x1B  # NV_ERR_INSUFFICIENT_PERMISSIONS
NOT_SUPPORTED, NO_PERMISSION, INVALID, GPU_IS_LOST = 3, 4, 2, 15


def run(daemon: LimitedDaemon, *words: str, gpus: str = SLICE) -> str:
    """Run the probe to its end in a slice; every word must answer as it is expected to."""
    return daemon.slice(1, gpus, *words).succeeds()


def holding(daemon: LimitedDaemon, seed: int, gpus: str, *words: str) -> Sliced:
    """Start the probe and wait until it holds what it has."""
    return daemon.slice(seed, gpus, *words, "count", "hold", until="count")


def register(daemon: LimitedDaemon, seed: int, gpus: str) -> int:
    """Try to register a sleeping process that has a cgroup; return the errno, or 0."""
    pid = os.spawnv(os.P_NOWAIT, "/bin/sleep", ["sleep", "60"])
    group = daemon.groups / long_id(seed)[:12]
    group.mkdir(exist_ok=True)
    (group / "cgroup.procs").write_text(str(pid))
    try:
        daemon.write("inst_ctl", f"create id={long_id(seed)} pid={pid} {gpus}\n")
    except OSError as error:
        return error.errno or -1
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return 0


def end(daemon: LimitedDaemon, sliced: Sliced) -> None:
    """Kill a program, and wait until its container is gone."""
    sliced.process.kill()
    eventually(lambda: not daemon.is_registered(sliced.id), "it was not reclaimed")


@contextlib.contextmanager
def faulty(daemon: LimitedDaemon, **values: int) -> Iterator[None]:
    """Have the library do something meanwhile."""
    daemon.fault(**values)
    try:
        yield
    finally:
        daemon.fault(**dict.fromkeys(values, 0))


@contextlib.contextmanager
def refused(number: int) -> Iterator[None]:
    with pytest.raises(OSError, match=re.escape(os.strerror(number))):
        yield


@pytest.mark.enforcement
def test_driver_refuses(limited: LimitedDaemon) -> None:
    """What goes beyond the slice is let go on, and the driver refuses it by the cgroup's limit."""
    run(limited, OVER, "alloc=6G", WELL, "alloc=6000M", OVER, "alloc=64M", WELL, "alloc=40M")
    run(limited, "via=heap", OVER, "alloc=6G", WELL, "alloc=6000M", "via=rm21", OVER, "alloc=64M")


@pytest.mark.enforcement
def test_container_does_not_set_its_limit(limited: LimitedDaemon) -> None:
    """A container with all rights of an administrator cannot raise the driver's limit on its cgroup."""
    run(limited, f"expect={DENIED:#x}", "limit=15G", OVER, "alloc=6G", WELL, "alloc=6000M", OVER, "alloc=64M")


@pytest.mark.enforcement
def test_sizes_are_those_of_the_slice(limited: LimitedDaemon) -> None:
    """The container sees its slice, and as free what the driver's count leaves of it."""
    out = run(limited, WELL, "alloc=1000M", "info")
    for form in ("v1", "v2", "heap"):
        assert f"{form}_total={LIMIT} {form}_free={LIMIT - 1000 * MIB} " in out, out


def test_tree_names_the_backend_and_figures(limited: LimitedDaemon) -> None:
    """The tree says who limits, and shows as free what the driver's count leaves."""
    assert limited.backend() == "driver"
    assert limited.status()["memory_backend"]["name"] == "driver"
    sliced = holding(limited, 3, SLICE, WELL, "alloc=1000M")
    assert limited.used(sliced) == 1000 * MIB
    sliced.process.send_signal(signal.SIGTERM)
    sliced.finish()


def test_contexts_are_not_charged(limited: LimitedDaemon) -> None:
    """They are on record for their channels; the driver's limits leave them out, and so does the slice."""
    sliced = holding(limited, 20, SLICE, "context=9", WELL, "alloc=1000M")
    assert limited.used(sliced) == 1000 * MIB
    if limited.enforces:
        assert limited.limit_of(sliced) == LIMIT
        assert limited.charged(sliced) == 1000 * MIB
    sliced.process.kill()
    eventually(lambda: limited.instances() == [], "it was not reclaimed")


def test_limit_on_every_card_and_gone_after(limited: LimitedDaemon) -> None:
    """Each card has the hard limit of its slice, and none when the container is gone."""
    sliced = holding(limited, 4, f"{SLICE} gpu=1:{1000 * MIB}")
    if limited.enforces:
        assert [limited.limit_of(sliced, card) for card in (0, 1)] == [LIMIT, 1000 * MIB]
    limited.write("inst_ctl", f"destroy id={sliced.id}\n")
    assert [limited.limit_of(sliced, card) for card in (0, 1)] == [None, None]
    sliced.process.kill()


def test_reclaim_takes_limits_away(limited: LimitedDaemon) -> None:
    """A container whose processes are gone loses its limits with its registration."""
    sliced = holding(limited, 5, SLICE)
    end(limited, sliced)
    eventually(lambda: limited.limit_of(sliced) is None, "its limit stayed")


def test_all_cards_or_none(limited: LimitedDaemon) -> None:
    """A card that refuses its limit takes the registration back, and the limits of the other cards."""
    with faulty(limited, card=1, set_code=GPU_IS_LOST):
        assert register(limited, 6, f"{SLICE} gpu=1:{1000 * MIB}") == errno.EIO
    assert not limited.is_registered(long_id(6))
    assert limited.limit(long_id(6)[:12]) is None
    assert "GPU is lost" in limited.log()


@pytest.mark.parametrize("code", [NOT_SUPPORTED, NO_PERMISSION, INVALID, GPU_IS_LOST])
@pytest.mark.parametrize("call", ["set_code", "get_code"])
def test_no_error_means_no_limit(limited: LimitedDaemon, call: str, code: int) -> None:
    """Whatever the library says no with, the container does not start."""
    with faulty(limited, card=0, **{call: code}):
        assert register(limited, 7, SLICE) == errno.EIO
    assert not limited.is_registered(long_id(7))


def test_a_limit_that_does_not_stick(limited: LimitedDaemon) -> None:
    """Success is believed only when the limit can be read back."""
    if not limited.enforces:
        pytest.skip("without enforcement there is no limit to read back")
    with faulty(limited, forgetful=1):
        assert register(limited, 8, SLICE) == errno.EIO
    assert not limited.is_registered(long_id(8))


def test_needs_a_cgroup_of_its_own(limited: LimitedDaemon) -> None:
    """A container without a cgroup of its own, or below another's, is refused."""
    with refused(errno.EINVAL):
        limited.write("inst_ctl", f"create id={long_id(9)} pid={limited.pid()} {SLICE}\n")
    with refused(errno.EINVAL):
        limited.write("inst_ctl", "0abcdefabcdef")
    sliced = holding(limited, 10, SLICE)
    with refused(errno.EINVAL):
        limited.write("inst_ctl", f"create id={long_id(11)} pid={sliced.process.pid} {SLICE}\n")
    assert limited.instances() == [sliced.id[:12]]
    end(limited, sliced)


def test_live_resize(limited: LimitedDaemon) -> None:
    """A write to memsize changes the driver's limit; less than what is held is EBUSY, and nothing changes."""
    sliced = holding(limited, 12, SLICE, WELL, "alloc=1000M")
    node = f"0/{sliced.id[:12]}/memsize"
    limited.write(node, str(8000 * MIB))
    assert int(limited.read(node)) == 8000 * MIB
    if limited.enforces:
        assert limited.limit_of(sliced) == 8000 * MIB
    with refused(errno.EBUSY):
        limited.write(node, str(999 * MIB))
    assert int(limited.read(node)) == 8000 * MIB
    end(limited, sliced)


def test_resize_that_the_driver_refuses(limited: LimitedDaemon) -> None:
    """When the driver does not take the new limit, the slice stays what it was."""
    if not limited.enforces:
        pytest.skip("without enforcement there is no limit to set")
    sliced = holding(limited, 13, SLICE)
    node = f"0/{sliced.id[:12]}/memsize"
    with faulty(limited, card=0, set_code=GPU_IS_LOST):
        with refused(errno.EIO):
            limited.write(node, str(7000 * MIB))
        assert int(limited.read(node)) == LIMIT
    eventually(lambda: limited.limit_of(sliced) == LIMIT, "the limit was not put back")
    end(limited, sliced)


@pytest.mark.enforcement
def test_managed_memory_takes_from_the_limit(limited: LimitedDaemon) -> None:
    """The driver counts no managed memory: its limit shrinks by what is mapped, so both fit the slice."""
    sliced = holding(limited, 14, f"gpu=0:{1000 * MIB}", WELL, "alloc=300M", "managed=600M")
    assert limited.limit_of(sliced) == 400 * MIB
    assert limited.used(sliced) == 900 * MIB
    sliced.process.kill()
    no_room = f"expect-errno={errno.ENOMEM}"
    run(limited, WELL, "alloc=500M", no_room, "managed=600M", gpus=f"gpu=0:{1000 * MIB}")
    words = (WELL, "managed=600M", OVER, "alloc=500M", WELL, "unmanaged", "alloc=900M")
    run(limited, *words, gpus=f"gpu=0:{1000 * MIB}")


def test_restart_keeps_limits(make_limited: Callable[..., LimitedDaemon]) -> None:
    """A new daemon takes up containers with their limits, also one that another configuration asks for."""
    daemon = make_limited()
    sliced = holding(daemon, 1, SLICE, WELL, "alloc=1000M")
    before = daemon.limit_of(sliced)
    daemon.command("--stop")
    assert daemon.limit_of(sliced) == before
    config = daemon.base / "config.yaml"
    config.write_text(config.read_text() + "memory_backend: core\n")
    daemon.start()
    assert daemon.backend() == "driver"
    assert daemon.limit_of(sliced) == before
    assert daemon.used(sliced) == 1000 * MIB
    assert "not while containers are registered" in daemon.log()
    daemon.write("inst_ctl", f"destroy id={sliced.id}\n")
    assert daemon.limit_of(sliced) is None


@pytest.mark.enforcement
def test_restart_with_a_failing_card(make_limited: Callable[..., LimitedDaemon]) -> None:
    """A daemon that cannot set the limits again takes none away; when the card is back all is as it was."""
    daemon = make_limited("T4:2")
    sliced = holding(daemon, 1, f"{SLICE} gpu=1:{LIMIT}", WELL, "alloc=1000M")
    daemon.command("--stop")
    # Only when it has chosen: a card that fails before that is a reason not to start.
    daemon.fault(card=1, set_code=GPU_IS_LOST, spared=1)
    daemon.start()
    assert [daemon.limit_of(sliced, card) for card in (0, 1)] == [LIMIT, LIMIT]
    assert "GPU is lost" in daemon.log()
    daemon.fault(set_code=0)
    node = f"1/{sliced.id[:12]}/memsize"
    daemon.write(node, str(LIMIT + MIB))
    assert daemon.limit_of(sliced, 1) == LIMIT + MIB


def test_stop_by_force_takes_limits_away(make_limited: Callable[..., LimitedDaemon]) -> None:
    """Nothing stays in the driver of slices that were taken away."""
    daemon = make_limited()
    sliced = holding(daemon, 1, SLICE)
    daemon.command("--stop", "--force")
    assert daemon.limit_of(sliced) is None


def test_library_that_hangs(make_limited: Callable[..., LimitedDaemon]) -> None:
    """A library that does not come back refuses registrations in bounded time, and blocks nothing else."""
    daemon = make_limited()
    daemon.fault(delay_ms=7000)
    begun = time.monotonic()
    assert register(daemon, 1, SLICE) == errno.EIO
    assert time.monotonic() - begun < 6.5
    begun = time.monotonic()
    assert register(daemon, 2, SLICE) == errno.EIO
    assert daemon.read("0/policy") == "1\n"
    assert time.monotonic() - begun < 1
    daemon.fault(delay_ms=0)
    eventually(lambda: register(daemon, 3, SLICE) == 0, "it did not come back")
    eventually(lambda: daemon.limit(long_id(1)[:12]) is None, "a limit that came too late stayed")


PREEMPTIVE, WEIGHT, SOFT = 1, 2, 4


@pytest.mark.enforcement
@pytest.mark.parametrize("policy", [WEIGHT, SOFT])
def test_time_is_divided(limited: LimitedDaemon, policy: int) -> None:
    """By channel enable, and by the card's timeslices."""
    assert Crew.at_work(limited, policy, 1, 2).shares() == [near(1 / 3), near(2 / 3)]


@pytest.mark.enforcement
def test_the_tree_says_who_divides(limited: LimitedDaemon) -> None:
    """As it does where the core limits memory."""
    assert limited.backend() == "driver"
    for policy, who in ((WEIGHT, "gates"), (PREEMPTIVE, "time_slices")):
        limited.write("0/policy", f"{policy}\n")
        assert f"divided_by={who}" in limited.read("0/sched")


PAUSE_MS = 10_000.0  # as in tests/daemon/upgrade/test_upgrade.py
SLOW_MS = 300


@pytest.mark.enforcement
def test_limits_and_figures_stay(make_limited: Callable[..., LimitedDaemon]) -> None:
    """Limits hold throughout, figures are the driver's, and no call of who allocates fails."""
    daemon = make_limited("T4:2")
    held = holding(daemon, 1, f"{SLICE} gpu=1:{LIMIT}", WELL, "alloc=1000M")
    load = [Steady(daemon, n, f"gpu=0:{512 * MIB}", 1000) for n in (2, 3)]
    longest = []
    for _ in range(int(os.environ.get("CGPU_UPGRADES", "3"))):
        for one in load:
            one.look()
        before = [daemon.limit_of(one) for one in (held, *(one.sliced for one in load))]
        result = upgrade(daemon)
        assert result["done"]
        assert daemon.backend() == "driver"
        assert [daemon.limit_of(one) for one in (held, *(one.sliced for one in load))] == before
        assert daemon.limit_of(held, 1) == LIMIT
        assert daemon.used(held) == daemon.charged(held) == 1000 * MIB
        figures = [one.look() for one in load]
        assert all(one.failed == 0 and one.calls > 0 for one in figures), figures
        longest.append(max(one.longest_ms for one in figures))
    print(f"the longest call in each upgrade, in ms: {longest}")
    assert max(longest) < PAUSE_MS
    daemon.enter(held, OVER, "alloc=6G").succeeds()
    daemon.write(f"1/{held.id[:12]}/memsize", str(LIMIT + MIB))
    assert daemon.limit_of(held, 1) == LIMIT + MIB
    held.finish("\n")
    eventually(lambda: not daemon.is_registered(held.id), "it is reclaimed")
    assert daemon.limit_of(held) is None


@pytest.mark.enforcement
def test_a_slow_library_is_not_waited_for(make_limited: Callable[..., LimitedDaemon]) -> None:
    """Containers do not wait for what the library takes to tell of each of them."""
    daemon = make_limited()
    held = [holding(daemon, n, f"gpu=0:{512 * MIB}", WELL, "alloc=100M") for n in range(1, 5)]
    load = Steady(daemon, 9, f"gpu=0:{512 * MIB}", 1000)
    before = [daemon.limit_of(one) for one in held]
    daemon.fault(delay_ms=SLOW_MS)
    load.look()
    result = upgrade(daemon)
    figures = load.look()
    daemon.fault(delay_ms=0)
    assert result["pause_ms"] < SLOW_MS * len(held)
    assert figures.failed == 0
    assert [daemon.limit_of(one) for one in held] == before
    assert [daemon.used(one) for one in held] == [100 * MIB] * len(held)
