# SPDX-License-Identifier: Apache-2.0
"""One life of a container through each runtime, with all that is told of it meanwhile."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from cgpu.client.tree import Tree
from cgpu.install.commands.gc import collect
from cgpu.runtime_config.engines import containerd, docker, podman
from cgpu.runtime_config.engines.engine import Ended, Listing
from tests.integration.commands import eventually
from tests.integration.engine import MIB, TREE, Engine
from tests.integration.probe import NO_MEMORY, step
from tests.integration.runtimes import Containerd, Docker, Podman, Runtime
from tests.integration.test_events import await_events, clear_log
from tests.integration.test_slice import LIMIT, SLICE


def listings(runtime: Runtime) -> list[Listing]:
    """Return how this test's own container engine is asked, as far as there is one."""
    match runtime:
        case Docker():
            asked = partial(docker.ended, Path(runtime.socket.removeprefix("unix://")))
        case Containerd():
            asked = partial(containerd.ended, runtime.base)
        case Podman():
            asked = partial(podman.ended, runtime.base)
        case _:
            return []
    return [Listing(runtime.name, asked)]


def said(runtime: Runtime) -> Ended:
    """Return what the engine says of its containers; nothing of one that has no engine."""
    return {identity: ended for one in listings(runtime) for identity, ended in one.ask().items()}


@pytest.mark.enforcement
def test_life_through_each_runtime(engine: Engine, runtime: Runtime) -> None:
    """A container that asks for nothing just runs; one with a slice has it to the byte, until it is killed.

    Processes that join it share the slice. The tree, the events and the container engine's list tell of its
    start and end. `cgpu gc` leaves it alone.
    """
    clear_log()
    listed = set(said(runtime))
    plain = runtime.run(["/cgpu-probe", "--help"], {})
    assert plain.returncode == 0, plain.text
    assert engine.instances() == []

    name = f"life-{runtime.name}-{os.getpid()}"
    started = runtime.start(name, ["/cgpu-probe", "alloc=1G", "hold=1000"], SLICE)
    assert started.returncode == 0, started.text
    eventually(lambda: len(engine.instances()) == 1, "the container is in the tree")
    (directory,) = engine.instances()
    eventually(lambda: engine.used("0", directory) == 1024 * MIB, "1 GiB is charged")
    words = ["info", "fill=512M:2m", "fill=1M:64k", "expect=0x51", "alloc=64K:64k", "info"]
    joined = runtime.exec(name, ["/cgpu-probe", *words])
    seen = step(joined, "info")
    assert (seen.number("total"), seen.number("free")) == (LIMIT, LIMIT - 1024 * MIB)
    assert step(joined, "alloc").number("status") == NO_MEMORY
    assert step(joined, "info", 1).number("free") == 0

    running = {identity for identity, has_ended in said(runtime).items() if not has_ended} - listed
    assert len(running) == (0 if runtime.name == "runc" else 1)
    found = collect(Tree(str(TREE)), dry_run=True, asked=listings(runtime))
    assert [one.goes for one in found.judged] == [False]

    runtime.kill(name)
    eventually(
        lambda: all(said(runtime).get(one, True) for one in running), "its engine says that it has ended"
    )
    runtime.remove(name)
    assert running.isdisjoint(said(runtime))
    start, end = await_events(["started", "ended"], "--filter", f"container={directory}")
    assert (start["gpu"], start["memsize"], start["weight"]) == (0, LIMIT, 1)
    assert start["id"] == end["id"]
    assert start["uuid"] == end["uuid"] == engine.read("0/uuid").strip()
    assert (end["memsize"], end["peak"]) == (LIMIT, LIMIT)
    # Each fill ends with a refusal. The engine stops a process that joined, to read its filter: a call that
    # this interrupts is made, and counted, again.
    assert end["refused_limit"] >= 3
    assert 0 < end["lived"] < 60e9
