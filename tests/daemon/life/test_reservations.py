# SPDX-License-Identifier: Apache-2.0
"""Reservations outlive the daemon as registrations do, and a container by shares is limited as any other."""

from __future__ import annotations

import pytest

from cgpu.client.reservations import Reservation
from cgpu.client.tree import Tree
from cgpu.errors import CgpuError
from cgpu.install.commands import gc
from cgpu.kmod.daemon.program import Program
from cgpu.slice import Slice
from tests.daemon.harness import MIB, Daemon, long_id
from tests.daemon.upgrades import upgrade
from tests.integration.commands import eventually

ONE = "6f1c0a52-93d1-4c1e-8f6a-000000000001"
TWO = "6f1c0a52-93d1-4c1e-8f6a-000000000002"
GIB = 1024 * MIB
BY_BOTH = f"share={ONE} share={TWO}"


def reserve_both(daemon: Daemon) -> Tree:
    tree = Tree(str(daemon.tree))
    tree.reserve(ONE, (0, GIB, 2, 0))
    tree.reserve(TWO, (0, 2 * GIB, 1, 1))
    return tree


def unused() -> tuple[Reservation, ...]:
    return Reservation(ONE, Slice(GIB, 2, 0), None), Reservation(TWO, Slice(2 * GIB, 1, 1), None)


def used(seed: int) -> tuple[Reservation, ...]:
    container = long_id(seed)
    return Reservation(ONE, Slice(GIB, 2, 0), container), Reservation(TWO, Slice(2 * GIB, 1, 1), container)


def test_killed_daemon_returns_with_reservations(fresh: Daemon) -> None:
    """kill -9 loses no reservation, used or not; a container's end and the daemon's leave it unused.

    The search for containers that are gone finds none there.
    """
    tree = reserve_both(fresh)
    fresh.crash()
    assert gc.collect(tree, dry_run=False, asked=()) == gc.Outcome((), ())
    assert tree.reserved(0) == unused()
    sliced = fresh.slice(1, BY_BOTH, "alloc=2G", "hold", until="alloc")
    fresh.crash()
    assert tree.reserved(0) == used(1)
    with pytest.raises(
        CgpuError, match=f"^share {ONE}: container {long_id(1)} uses share {ONE} of GPU 0; end it"
    ):
        tree.release(ONE)
    fresh.crash(sliced.kill)
    eventually(lambda: fresh.instances() == [], "the container was not reclaimed")
    assert tree.reserved(0) == unused()
    sliced = fresh.slice(2, BY_BOTH, "alloc=3G", "hold", until="alloc")
    assert tree.reserved(0) == used(2)
    sliced.finish("\n")


def test_stop_keeps_reservations(fresh: Daemon) -> None:
    """A stop without containers keeps reservations for the next start; a forced one gives them up."""
    tree = reserve_both(fresh)
    done = fresh.command("--stop")
    assert (done.returncode, done.stdout) == (
        0,
        "cgpud has stopped; its reservations (2) wait for its next start\n",
    )
    fresh.start()
    assert tree.reserved(0) == unused()
    done = fresh.command("--stop", "--force")
    assert (done.returncode, done.stdout) == (0, "cgpud has stopped; its reservations (2) are released\n")
    fresh.start()
    assert tree.reserved(0) == ()
    assert fresh.read("0/free_weight") == "20\n"


def test_another_version_has_the_reservations(fresh: Daemon, newer: Program) -> None:
    """An upgrade takes them over, with and without containers that use them."""
    tree = reserve_both(fresh)
    upgrade(fresh, newer)
    assert tree.reserved(0) == unused()
    sliced = fresh.slice(1, BY_BOTH, "alloc=2G", "hold", "alloc=2G", "count", until="alloc")
    upgrade(fresh)
    assert tree.reserved(0) == used(1)
    assert f"bytes={2 * GIB} " in sliced.finish("\n")
    eventually(lambda: tree.reserved(0) == unused(), "the container was not reclaimed")
    tree.release(ONE)
    tree.release(TWO)
    assert tree.reserved(0) == ()
