# SPDX-License-Identifier: Apache-2.0
"""cgpud over NVIDIA's own driver: what a slice is, and that the driver's allocator never gives more.

The card is one in software, with a fake GSP; clients, objects and memory are the driver's. A witness below
the driver's allocator, which no engine has a part in, tells what was given out.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.engine import MIB
from tests.integration.probe import NO_MEMORY, Step, step, steps
from tests.vm.harness.bundles import Containers
from tests.vm.harness.node import real_driver
from tests.vm.harness.process import Finished
from tests.vm.harness.slices import GIB, PROBE
from tests.vm.nvidia.daemon import SECONDS, GuestDaemon, running
from tests.vm.nvidia.driver import CARD_BYTES

__all__ = ["running"]

pytestmark = pytest.mark.real_driver

LIMIT = GIB
SLICE = {"ALIYUN_COM_GPU_MEM_CONTAINER": "1", "ALIYUN_COM_GPU_MEM_DEV": "15", "NVIDIA_VISIBLE_DEVICES": "0"}
SLICE_BYTES = 15109 // 15 * MIB


@pytest.fixture
def daemon(running: GuestDaemon) -> Iterator[GuestDaemon]:
    """Return the same with nothing in use; a test may leave nothing behind."""
    running.await_empty()
    running.forget_peak()
    yield running
    running.clear()


def statuses(outcome: Finished, *names: str) -> list[int]:
    return [one.number("status") for one in steps(outcome) if one.name in names]


def peak(daemon: GuestDaemon) -> int:
    """Return the most that the driver's allocator has had given out at once."""
    return daemon.view().cards[0]["peak"]


def got(found: list[Step]) -> int:
    return sum(one.number("bytes") for one in found if one.name == "fill")


def test_the_driver_is_found(daemon: GuestDaemon) -> None:
    """Version, card and nodes are what the driver tells, and its layouts are those of its very version."""
    status = daemon.status()
    version = real_driver()
    assert version is not None
    assert (status["engine"]["driver"], status["engine"]["layout"]) == (version, "exact")
    assert [(gpu["name"], gpu["memtotal"]) for gpu in status["gpus"]] == [("Tesla T4", CARD_BYTES)]
    assert status["simulate"] is None
    assert [daemon.read(f"0/{node}") for node in ("minor", "major", "drift")] == ["0\n", "195\n", "0\n"]
    assert "cannot be exported" not in daemon.log()


@pytest.mark.parametrize("how", ["exit-dirty", "killed"])
def test_comes_back(daemon: GuestDaemon, how: str) -> None:
    """A process that ends in any way gives all memory back, and the whole card can be had by the next."""
    words = ("alloc=512M", "dup", "alloc=256M", "export", "managed=64M")
    if how == "killed":
        daemon.hold(*words).stop()
    else:
        assert daemon.probe(*words, how).returncode == 0
    daemon.await_empty()
    outcome = daemon.probe("fill=64M:2m", "fill=1M", "fill=64K:64k", size=CARD_BYTES)
    assert peak(daemon) == got(steps(outcome)), outcome.text
    # All but what the driver keeps for itself.
    assert CARD_BYTES - got(steps(outcome)) < 512 * MIB


@pytest.mark.enforcement
def test_restart(daemon: GuestDaemon) -> None:
    """A cgpud that is started again takes containers up with their charges, and the limit holds."""
    holder = daemon.start_program(
        "kept", PROBE, "alloc=512M", "hold", "alloc=768M", "alloc=512M", register=LIMIT
    )
    holder.await_output("alloc ", timeout=SECONDS)
    daemon.command("--stop")
    daemon.start()
    assert daemon.view().used == {(0, "kept"): 512 * MIB}
    outcome = holder.finish(SECONDS)
    assert statuses(outcome, "alloc") == [0, NO_MEMORY, 0], outcome.text
    assert peak(daemon) == LIMIT


@pytest.mark.enforcement
def test_container(daemon: GuestDaemon) -> None:
    """runc behind the wrapper: its container sees its slice and its own processes, and gets no page more."""
    containers = Containers(daemon.machine)
    words = ["info", "fill=16M:2m", "fill=64K:64k", "alloc=64K:64k", "pids"]
    outcome = containers.run(["/cgpu-probe", *words], SLICE)
    assert step(outcome, "info").number("total") == SLICE_BYTES, outcome.text
    assert got(steps(outcome)) == SLICE_BYTES == peak(daemon)
    assert step(outcome, "alloc").number("status") == NO_MEMORY
    assert step(outcome, "pids").number("count") == 1
