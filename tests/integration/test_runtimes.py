# SPDX-License-Identifier: Apache-2.0
"""The same container through every runtime."""

from __future__ import annotations

import os

import pytest

from tests.integration.commands import eventually
from tests.integration.engine import MIB, Engine
from tests.integration.probe import NO_MEMORY, step
from tests.integration.runtimes import Runtime
from tests.integration.test_slice import LIMIT, SLICE


@pytest.mark.enforcement
def test_slice(engine: Engine, runtime: Runtime) -> None:
    """Through each runtime the container sees its slice, is refused one byte more, and leaves nothing."""
    words = ["info", "fill=512M:2m", "fill=1M:64k", "expect=0x51", "alloc=64K", "info"]
    outcome = runtime.run(["/cgpu-probe", *words], SLICE)
    assert step(outcome, "info").number("total") == LIMIT
    assert step(outcome, "alloc").number("status") == NO_MEMORY
    assert step(outcome, "info", 1).number("free") == 0
    engine.await_empty()


@pytest.mark.enforcement
def test_life(engine: Engine, runtime: Runtime) -> None:
    """Started, joined by exec, killed and removed: the tree follows, and is empty in the end."""
    name = f"life-{runtime.name}-{os.getpid()}"
    started = runtime.start(name, ["/cgpu-probe", "alloc=1G", "hold=60"], SLICE)
    assert started.returncode == 0, started.text
    eventually(lambda: len(engine.instances()) == 1, "the container is in the tree")
    directory = engine.instances()[0]
    eventually(lambda: engine.used("0", directory) == 1024 * MIB, "1 GiB is charged")
    joined = runtime.exec(name, ["/cgpu-probe", "info"])
    assert step(joined, "info").number("free") == LIMIT - 1024 * MIB
    runtime.kill(name)
    runtime.remove(name)
    engine.await_empty()


def test_asks_for_nothing(engine: Engine, runtime: Runtime) -> None:
    """A container that asks for nothing runs as if nothing were installed."""
    outcome = runtime.run(["/cgpu-probe", "--help"], {})
    assert outcome.returncode == 0, outcome.text
    assert engine.instances() == []
