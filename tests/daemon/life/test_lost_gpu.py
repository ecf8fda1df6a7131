# SPDX-License-Identifier: Apache-2.0
"""A GPU that falls off the bus: it is told of that one alone, and it may come back."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

import pytest

from cgpu.client.tree import Tree
from cgpu.errors import CgpuError
from tests.daemon.harness import MIB, Daemon, serving
from tests.integration.commands import eventually

GPU_IS_LOST = 0x0F  # nvstatuscodes.h
LIMIT = 1024 * MIB


@pytest.fixture
def two() -> Iterator[Daemon]:
    """Serve two cards to a daemon."""
    with serving(Daemon, "T4=4096:2") as running:
        yield running


def set_lost(daemon: Daemon, card: int, *, lost: bool) -> None:
    """Have a simulated card fall off the bus, or come back."""
    (daemon.run / "sim" / "driver" / "gpus" / str(card) / "lost").write_text(f"{lost:d}\n")


def losses(daemon: Daemon) -> list[int]:
    return [Tree(str(daemon.tree)).gpu_stat(gpu).lost for gpu in (0, 1)]


def refusal(daemon: Daemon, gpus: str) -> int:
    """Return the errno of a registration of this process."""
    try:
        daemon.write("inst_ctl", f"create id=refused pid={os.getpid()} {gpus}")
    except OSError as error:
        return error.errno or 0
    daemon.write("inst_ctl", "destroy id=refused")
    return 0


def test_a_lost_gpu_and_its_neighbour(two: Daemon) -> None:
    """Its container is told what the driver says; new slices of it alone are refused until it is back."""
    words = ("alloc=1M", "hold", f"expect={GPU_IS_LOST:#x}", "alloc=1M", "info")
    sliced = two.slice(1, f"gpu=1:{LIMIT}", "gpu=1", *words, until="hold")
    assert losses(two) == [0, 0]
    set_lost(two, 1, lost=True)
    eventually(lambda: losses(two) == [0, 1], "the engine asks each card once a second")
    assert f"status={GPU_IS_LOST:#x}" in sliced.finish("\n")
    assert refusal(two, f"gpu=1:{MIB}") == errno.EIO
    assert refusal(two, f"gpu=0:{MIB}") == 0
    assert two.status()["driver_error"] is None
    set_lost(two, 1, lost=False)
    eventually(lambda: losses(two) == [0, 0], "the card is back")
    assert refusal(two, f"gpu=1:{MIB}") == 0
    log = two.log()
    assert log.count("the driver has lost it (NV_ERR_GPU_IS_LOST)") == 1
    assert log.count("the driver answers for it again") == 1
    assert "the driver does not answer" not in log


def test_a_message_names_the_lost_gpu(two: Daemon) -> None:
    """Who asks for a slice is told which GPU is lost, and where the reason is."""
    set_lost(two, 0, lost=True)
    eventually(lambda: losses(two) == [1, 0], "the engine asks each card once a second")
    with pytest.raises(CgpuError, match="GPU 0 is lost: the driver no longer reaches it"):
        Tree(str(two.tree)).register("b" * 64, os.getpid(), [(0, MIB, 1, 0)])
