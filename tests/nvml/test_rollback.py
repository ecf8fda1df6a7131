# SPDX-License-Identifier: Apache-2.0
"""What a refused registration leaves in the driver, with a regular look at the worst moment.

Engine and library are fakes here, so that the moment is not left to chance.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cgpu.kmod.daemon.engine import Container, Gpu, Instance
from cgpu.kmod.daemon.library import Node
from cgpu.kmod.daemon.memory_backend.driver_limits import DriverLimits
from cgpu.kmod.daemon.memory_backend.nvml import Limits, NvmlError
from cgpu.kmod.daemon.tree.limited_tree import CONTROL, LimitedTree

LIMIT = 1 << 30
SLOW_S = 0.1  # the driver takes this long to take a limit away


class Library:
    """Limits by card; card "lost" refuses all."""

    def __init__(self) -> None:
        self.hard: dict[str, int] = {}

    def set_hard(self, uuid: str, directory: str, hard: int | None) -> None:
        """Set a limit, or take it away slowly."""
        if uuid == "lost":
            raise NvmlError(directory, 15, "GPU is lost")
        if hard is None:
            time.sleep(SLOW_S)
            self.hard.pop(uuid, None)
        else:
            self.hard[uuid] = hard

    def limits(self, uuid: str, directory: str) -> Limits:
        if uuid == "lost":
            raise NvmlError(directory, 15, "GPU is lost")
        return Limits(self.hard.get(uuid), 0, 0)


class Engine:
    """One container on two cards, with a regular look just before it is removed."""

    def __init__(self) -> None:
        self.registered: list[Container] = []
        self.limits: DriverLimits | None = None

    def gpus(self) -> Iterator[Gpu]:
        """Give a good card and a lost one."""
        return iter([Gpu(0, 0, 2 * LIMIT, "good", "T4"), Gpu(1, 1, 2 * LIMIT, "lost", "T4")])

    def containers(self) -> Iterator[Container]:
        return iter(list(self.registered))

    def instance(self, container: Container, index: int) -> Instance:
        """Return the slice on either card."""
        return Instance(LIMIT, 0)

    def limits_sampled(self, *figures: object) -> None:
        """Take figures."""

    def write(self, node: Node, text: bytes) -> None:
        self.registered.append(Container(text.split()[1].decode().removeprefix("id="), "/one", 1, 0, 1))

    def find(self, name: str) -> Container:
        return self.registered[0]

    def remove(self, container: Container) -> None:
        """Remove it, after a regular look."""
        assert self.limits is not None
        self.limits.adopt()
        self.registered.clear()


def test_look_before_the_removal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits of a refused container are gone from the driver when the refusal returns."""
    monkeypatch.setattr("cgpu.kmod.daemon.memory_backend.driver_limits.CGROUPS", str(tmp_path))
    (tmp_path / "one").mkdir()
    engine, library = Engine(), Library()
    engine.limits = DriverLimits(engine, library, enforce=True)  # type: ignore[arg-type]
    try:
        tree = LimitedTree(engine, engine.limits)  # type: ignore[arg-type]
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            tree.write(CONTROL, Node(), b"create id=a\n")
        assert library.hard == {}
    finally:
        assert engine.limits.close()
