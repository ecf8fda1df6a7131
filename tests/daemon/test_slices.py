# SPDX-License-Identifier: Apache-2.0
"""A program under a listener, with no container runtime: what it gets, what it is refused, what it leaves."""

from __future__ import annotations

import pytest

from tests.daemon.harness import MIB, PAGE, PROBE, Daemon, eventually

pytestmark = pytest.mark.root

LIMIT = 6043 * MIB
SIX = f"gpu=0:{LIMIT}"


def test_card_is_as_large_as_the_slice(daemon: Daemon) -> None:
    """Every question for the card's memory is answered with the slice."""
    out = daemon.slice(1, SIX, "info").finish()
    for name in ("total", "free", "v1_total", "v2_total", "heap_total", "region_total"):
        assert f" {name}={LIMIT} " in out
    assert " used=0 " in out


def test_every_byte_and_not_one_page_more(daemon: Daemon) -> None:
    """The slice can be had to the last page; one page more is out of memory; what is freed comes back."""
    words = (
        "fill=64M:2m",
        "fill=64K:64k",
        "count",
        "alloc=64K:64k",
        "free=last",
        "alloc=64K:64k",
        "alloc=64K:64k",
    )
    out = daemon.slice(1, SIX, *words).finish().splitlines()
    assert f"bytes={LIMIT} " in next(line for line in out if line.startswith("count"))
    statuses = [line.rpartition("status=")[2] for line in out if line.startswith("alloc")]
    assert statuses == ["0x51", "0x0", "0x51"]


@pytest.mark.parametrize("via", ["rm64", "rm21", "heap"])
@pytest.mark.parametrize("how", [(), ("xfer",), ("magic=0", "dir=0"), ("magic=0x54", "dir=1")])
def test_every_way_to_ask(daemon: Daemon, via: str, how: tuple[str, ...]) -> None:
    """Both forms of RM_ALLOC, the heap control, the envelope and any magic byte meet the same limit."""
    out = daemon.slice(1, SIX, f"via={via}", *how, "alloc=6G", "alloc=1G", "count").finish()
    assert "alloc 6442450944 size=6442450944 offset=0 limit=0" in out
    assert "bytes=1073741824 " in out


def test_32_bit(daemon: Daemon) -> None:
    """A 32-bit process meets the same limit."""
    sliced = daemon.slice(1, SIX, "alloc=6G", "alloc=1G", "count", program=PROBE.with_name("cgpu-probe32"))
    out = sliced.finish()
    assert "status=0x51" in out
    assert "bytes=1073741824 " in out


def test_forks_and_threads_share_the_slice(daemon: Daemon) -> None:
    """Eight processes and eight threads that ask at once get what one would."""
    out = daemon.slice(1, SIX, "fork=8:1G:nest", "threads=8:1G").finish().splitlines()
    for kind in ("fork", "thread"):
        statuses = [line.rpartition("status=")[2] for line in out if line.startswith(kind + " ")]
        assert sorted(statuses) == ["0x0"] * 5 + ["0x51"] * 3


def test_thread_with_its_own_descriptors(daemon: Daemon) -> None:
    """A thread that has unshared its descriptor table is charged like every other."""
    sliced = daemon.slice(1, SIX, "unshare=1G", "unshare=6G")
    out = sliced.finish().splitlines()
    assert [line.rpartition("status=")[2] for line in out if line.startswith("unshare")] == ["0x0", "0x51"]


def test_second_listener_shares_the_slice(daemon: Daemon) -> None:
    """What enters a container later, as docker exec does, shares its limit and gives back what it took."""
    first = daemon.slice(1, SIX, "alloc=4G", "hold")
    first.line("alloc")
    out = daemon.enter(first, "alloc=2G", "alloc=1G", "count").finish()
    assert "alloc 2147483648 size=2147483648 offset=0 limit=0" in out
    assert "bytes=1073741824 " in out
    eventually(lambda: daemon.used(first) == 4096 * MIB, "the second process gave nothing back")
    first.finish()


def test_neighbours(daemon: Daemon) -> None:
    """Two containers on one card each get their own, in whatever order they ask."""
    one = daemon.slice(1, f"gpu=0:{4096 * MIB}", "alloc=1G", "hold", "alloc=3G", "alloc=64K")
    two = daemon.slice(2, f"gpu=0:{8192 * MIB}", "alloc=8G", "hold", "alloc=64K")
    one.line("alloc")
    two.line("alloc")
    assert "alloc 3221225472 size=3221225472" in (out := one.finish("\n"))
    assert out.count("status=0x51") == 1
    assert "status=0x51" in two.finish("\n")


@pytest.mark.parametrize("end", ["exit-dirty", "kill"])
def test_everything_comes_back(daemon: Daemon, end: str) -> None:
    """A process that ends in any way gives all memory back at once, and its container with it."""
    sliced = daemon.slice(
        1, SIX, "alloc=1G", "alloc=1G", *(("exit-dirty",) if end == "exit-dirty" else ("hold",))
    )
    sliced.line("alloc")
    sliced.line("alloc")
    if end == "kill":
        sliced.process.kill()
    sliced.finish()
    eventually(lambda: daemon.instances() == [], "the container was not reclaimed")
    whole = daemon.slice(2, f"gpu=0:{15109 * MIB}", "fill=64M", "fill=64K:64k", "count").finish()
    assert f"bytes={15109 * MIB} " in whole


def test_card_that_was_not_granted(daemon: Daemon) -> None:
    """A sliced container can allocate nothing on another card."""
    out = daemon.slice(1, SIX, "gpu=1", "alloc=64K").finish()
    assert "status=0x0" not in out


def test_freed_with_copies_left(daemon: Daemon) -> None:
    """Memory is charged until its last handle goes."""
    words = ("alloc=4G", "dup", "free=first", "alloc=4G", "free=all", "alloc=4G")
    out = daemon.slice(1, SIX, *words).finish().splitlines()
    statuses = [line.rpartition("status=")[2] for line in out if line.startswith("alloc")]
    assert statuses == ["0x0", "0x51", "0x0"]


def test_storm_of_signals(daemon: Daemon) -> None:
    """Calls that a signal interrupts again and again happen exactly once."""
    out = daemon.slice(1, SIX, "storm=600:64K:60", "count").finish()
    assert "granted=600 refused=0 " in out
    assert f"used={600 * PAGE} " in out


def test_unregistered_container_gets_nothing(daemon: Daemon) -> None:
    """The listener of a container that nobody registered is closed: its driver calls fail."""
    sliced = daemon.slice(9, "", "info", register=False)
    sliced.finish()
    assert sliced.process.returncode != 0
    assert "is not registered" in daemon.log()


def test_enforcement_off(make_daemon: object) -> None:
    """With enforcement off the same program takes more than its slice: the limit comes from the engine."""
    daemon = make_daemon("T4", "enforce: false\n")  # type: ignore[operator]
    assert "status=0x51" not in daemon.slice(1, SIX, "alloc=6G", "alloc=1G").finish()
