# SPDX-License-Identifier: Apache-2.0
"""`cgpu events` tells the truth about containers of real runtimes on the simulated card."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.integration.commands import call, eventually, must
from tests.integration.conftest import Start
from tests.integration.engine import CGPU, MIB, RUN, Engine
from tests.integration.runtimes import Docker, Runc

SLICE = {"OPENCGPU_MEM": "6G", "NVIDIA_VISIBLE_DEVICES": "0"}
SIX = 6144 * MIB
Events = list[dict[str, Any]]


def clear_log() -> None:
    for name in ("events.log", "events.log.1"):
        (RUN / name).unlink(missing_ok=True)


@pytest.fixture(autouse=True)
def anew() -> None:
    clear_log()


def events(*words: str) -> Events:
    shown = must([CGPU, "events", "--format", "json", *words]).stdout
    return [json.loads(line) for line in shown.splitlines()]


def await_events(kinds: list[str], *words: str) -> Events:
    """Wait until these events are there, and no others."""
    found: Events = []
    of_slices = [word for kind in ("started", "refused", "ended") for word in ("--filter", f"event={kind}")]

    def are_there() -> bool:
        found[:] = events(*words, *of_slices)
        return [one["event"] for one in found] == kinds

    eventually(are_there, f"events {kinds}; there are {found}")
    return found


def test_names_of_removed_containers(engine: Engine, docker: Docker) -> None:
    """A container of docker that is gone, as with --rm, is told by its name, and so is a refused one."""
    name = f"gone-{os.getpid()}"
    for size, status in (("1G", 0), ("900G", 125)):
        outcome = docker.run(["/cgpu-probe", "info"], {**SLICE, "OPENCGPU_MEM": size}, "--name", name)
        assert outcome.returncode == status, outcome.text
    assert docker.call("ps", "--all", "--quiet").stdout == ""
    found = await_events(["started", "ended", "refused"], "--filter", f"container={name}")
    assert {one["name"] for one in found} == {name}


def test_refused(engine: Engine, docker: Docker, runc: Runc) -> None:
    """A container that finds no room, and one that asks for nonsense, are told with what is shown."""
    first = docker.start("first", ["/cgpu-probe", "hold=1000"], {**SLICE, "OPENCGPU_MEM": "10G"})
    assert first.returncode == 0, first.text
    outcome = docker.run(["/cgpu-probe", "info"], SLICE)
    assert outcome.returncode != 0
    refused = await_events(["started", "refused"])[1]
    assert (refused["gpu"], refused["memsize"]) == (0, SIX)
    assert "GPU 0" in refused["message"]
    assert refused["message"] in outcome.text
    outcome = runc.run(["/cgpu-probe", "info"], {**SLICE, "OPENCGPU_MEM": "6 GB"})
    assert outcome.returncode != 0
    refused = await_events(["started", "refused", "refused"])[2]
    assert refused["message"].startswith("OPENCGPU_MEM=6 GB: ")
    assert refused["message"] in outcome.text
    docker.remove("first")


def test_refused_run(engine: Engine) -> None:
    """A `cgpu run` that gets no slice is told like a container, with the GPU once it is known."""
    inner = 'exec "$0" run --mem 6G -- /bin/true'
    outcome = call([CGPU, "run", "--mem", "10G", "--", "/bin/sh", "-c", inner, CGPU])
    (refused,) = events("--filter", "event=refused")
    assert (outcome.returncode, outcome.stderr) == (125, f"cgpu run: {refused['message']}\n")
    assert refused["id"].startswith("run-")
    assert (refused["gpu"], refused["memsize"], refused["weight"]) == (0, SIX, 1)
    outcome = call([CGPU, "run", "--mem", "900G", "--", "/bin/true"])
    refused = events("--filter", "event=refused")[1]
    assert (outcome.returncode, outcome.stderr) == (125, f"cgpu run: {refused['message']}\n")
    assert "gpu" not in refused
    # One that has its slice, and whose command is not there, was refused nothing.
    assert call([CGPU, "run", "--mem", "1G", "--", "/none"]).returncode == 127
    assert len(events("--filter", "event=refused")) == 2


@pytest.mark.usefixtures("own_engine")
def test_life_of_the_engine(start: Start) -> None:
    """The engine's own start and end are told, and the slices that go with it."""
    clear_log()  # of the end of another test's engine
    engine = start("T4:2")
    engine.write("inst_ctl", f"create id=held pid={os.getpid()} gpu=0:1048576 gpu=1:2097152")
    engine.stop()
    found = events()
    life = ["ready", "started", "started", "ended", "ended", "stranded", "stopped"]
    assert [one["event"] for one in found] == life
    assert [one["gpu"] for one in found[1:5]] == [0, 1, 0, 1]
    assert found[5]["message"] == "it runs on without its GPU: cgpud was stopped by force; start it anew"
    assert "2 Tesla T4" in found[0]["message"]


@pytest.mark.usefixtures("own_engine")
def test_a_daemon_that_was_killed(engine: Engine) -> None:
    """The end of a container while no daemon runs is told when the next finds it gone, with its peak."""
    engine.write("inst_ctl", f"create id=held pid={os.getpid()} gpu=0:1048576")
    engine.await_restart(engine.kill())
    engine.write("inst_ctl", "destroy id=held")
    assert [one["event"] for one in await_events(["started", "ended"])] == ["started", "ended"]
    assert [one["event"] for one in events("--filter", "event=ready")] == ["ready", "ready"]
