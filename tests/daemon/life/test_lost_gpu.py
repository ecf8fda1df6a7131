# SPDX-License-Identifier: Apache-2.0
"""A GPU that falls off the bus: it is told of that one alone, and it may come back."""

from __future__ import annotations

import errno
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cgpu.client.tree import Tree
from cgpu.errors import CgpuError
from cgpu.kmod.daemon.places import Places
from cgpu.process_identity import start_time
from tests.daemon.conftest import Drive, MakeDaemon
from tests.daemon.harness import MIB, Daemon, serve_cards, serving
from tests.daemon.upgrades import upgrade
from tests.integration.commands import eventually

GPU_IS_LOST = 0x0F  # nvstatuscodes.h
LIMIT = 1024 * MIB


@pytest.fixture
def two() -> Iterator[Daemon]:
    with serving(Daemon, "T4=4096:2") as running:
        yield running


def set_lost(daemon: Daemon, card: int, *, lost: bool) -> None:
    (daemon.run / "sim" / "driver" / "gpus" / str(card) / "lost").write_text(f"{lost:d}\n")


def losses(daemon: Daemon) -> list[int]:
    return [Tree(str(daemon.tree)).gpu_stat(gpu).lost for gpu in (0, 1)]


def test_a_lost_gpu_and_its_neighbour(two: Daemon) -> None:
    """Its container is told what the driver says; new slices of it alone are refused until it is back."""
    words = ("alloc=1M", "hold", f"expect={GPU_IS_LOST:#x}", "alloc=1M", "info")
    sliced = two.slice(1, f"gpu=1:{LIMIT}", "gpu=1", *words, until="hold")
    assert losses(two) == [0, 0]
    set_lost(two, 1, lost=True)
    eventually(lambda: losses(two) == [0, 1], "the engine asks each card once a second")
    assert f"status={GPU_IS_LOST:#x}" in sliced.finish("\n")
    assert two.refusal(f"gpu=1:{MIB}") == errno.EIO
    assert two.refusal(f"gpu=0:{MIB}") == 0
    with pytest.raises(CgpuError, match="GPU 1 is lost: the driver no longer reaches it"):
        Tree(str(two.tree)).register("b" * 64, os.getpid(), [(1, MIB, 1, 0)])
    assert two.status()["driver_error"] is None
    set_lost(two, 1, lost=False)
    eventually(lambda: losses(two) == [0, 0], "the card is back")
    assert two.refusal(f"gpu=1:{MIB}") == 0
    # The line comes after the figure.
    eventually(lambda: two.log().count("the driver answers for it again") == 1, "the log says so")
    log = two.log()
    assert log.count("the driver has lost it (NV_ERR_GPU_IS_LOST)") == 1
    assert "the driver does not answer" not in log


def begin_lost(run: Path) -> None:
    """Have the first of the cards that are served already be lost."""
    (run / "sim" / "driver" / "gpus" / "0" / "lost").write_text("1\n")


def test_an_engine_that_starts_beside_a_lost_gpu(drive: Drive, make_daemon: MakeDaemon, base: Path) -> None:
    """The engine serves the other GPU; the next engine has both, once the card is back."""
    drive("580.142", cards="T4=4096:2")
    begin_lost(base / "run")
    daemon = make_daemon("T4=4096:2")
    assert cards(daemon) == ["1"]
    assert "GPU 0 (/dev/nvidia0): does not start, and is left out" in daemon.log()
    assert daemon.refusal(f"gpu=0:{MIB}") == errno.ENOENT
    sliced = daemon.slice(
        1, f"gpu=1:{LIMIT}", "gpu=1", "expect=0x51", f"alloc={LIMIT + MIB}", "alloc=1M", "info"
    )
    assert f"total={LIMIT}" in sliced.succeeds()
    assert described(daemon) == ["1"]
    set_lost(daemon, 0, lost=False)
    upgrade(daemon)
    assert cards(daemon) == ["0", "1"]
    assert losses(daemon) == [0, 0]
    assert described(daemon) == ["0", "1"]


def test_no_gpu_answers(drive: Drive, base: Path) -> None:
    """An engine with no other GPU does not start, and says where the reason is."""
    drive("580.142")
    begin_lost(base / "run")
    with pytest.raises(AssertionError, match="no GPU of 1 answers; why: the lines of NVRM in dmesg"):
        Daemon(base, "T4")


def upgrade_after(daemon: Daemon, change: Callable[[], object]) -> None:
    """Change something, and put the next engine in the place of this one."""
    change()
    upgrade(daemon)


def told(daemon: Daemon) -> list[str]:
    """Return what was written of GPU 1 itself into the event log."""
    events = [json.loads(line) for line in Places(daemon.run).events.read_text().splitlines()]
    return [one["event"] for one in events if one.get("gpu") == 1 and "id" not in one]


@pytest.mark.parametrize("next_engine", [Daemon.crash, upgrade_after])
def test_the_next_engine_while_a_gpu_is_lost(
    two: Daemon, next_engine: Callable[[Daemon, Callable[[], object]], None]
) -> None:
    """Its containers keep their places, and those of the other GPU their memory."""
    stays = two.slice(2, f"gpu=0:{LIMIT}", "alloc=64M", "hold", "expect=0x51", f"alloc={LIMIT}", until="hold")
    waits = two.slice(3, f"gpu=1:{LIMIT}", "gpu=1", "alloc=1M", "hold", until="hold")
    set_lost(two, 1, lost=True)
    # One that is killed takes with it what it has not written.
    eventually(lambda: told(two) == ["lost"], "the engine asks each card once a second")
    next_engine(two, lambda: None)
    assert losses(two) == [0, 1]
    assert [two.instances(gpu) for gpu in (0, 1)] == [[stays.id[:12]], [waits.id[:12]]]
    assert two.used(stays) >= 64 * MIB
    assert two.refusal(f"gpu=1:{MIB}") == errno.EIO
    stays.succeeds("\n")
    next_engine(two, lambda: set_lost(two, 1, lost=False))
    eventually(lambda: losses(two) == [0, 0], "the engine asks each card once a second")
    waits.succeeds("\n")
    eventually(lambda: told(two) == ["lost", "back"], "both are told once", instead=lambda: told(two))


def test_a_gpu_that_the_driver_lists_no_more(base: Path) -> None:
    """As after the removal of its PCI device: it is lost to the next engine, and no container is given it."""
    servers = [serve_cards(base / "run", "T4=4096:2", "580.142")]
    daemon = Daemon(base, "T4=4096:2")
    record = (base / "run" / "sim.json").read_text()

    def remove() -> None:
        servers[0].terminate()
        servers[0].wait()
        servers.append(serve_cards(base / "run", "T4=4096:1", "580.142"))
        pid = f'"pid": {servers[1].pid}, "started": {start_time(servers[1].pid)}'
        (base / "run" / "sim.json").write_text(re.sub('"pid": .*"started": [0-9]+', pid, record))

    try:
        daemon.crash(remove)
        eventually(lambda: losses(daemon) == [0, 1], "the second card is lost")
        assert daemon.refusal(f"gpu=1:{MIB}") == errno.EIO
        assert daemon.refusal(f"gpu=0:{MIB}") == 0
        assert described(daemon) == ["0"]
    finally:
        daemon.close()
        servers[-1].terminate()
        servers[-1].wait()


def cards(daemon: Daemon) -> list[str]:
    return sorted(path.name for path in daemon.tree.iterdir() if path.is_dir())


def described(daemon: Daemon) -> list[str]:
    """Return the indices in what containers are given."""
    document = json.loads(Places(daemon.run).cdi.read_text())
    return [device["name"] for device in document["devices"] if device["name"].isdigit()]
