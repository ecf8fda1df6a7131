# SPDX-License-Identifier: Apache-2.0
"""cgpu gc beside real engines: what is gone goes, what lives stays."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from cgpu.client.tree import Tree
from cgpu.install.commands.gc import Outcome, collect
from cgpu.runtime_config.engines import containerd, docker, podman
from cgpu.runtime_config.engines.engine import Ended, Listing
from tests.integration.commands import call
from tests.integration.engine import CGPU, TREE, Engine
from tests.integration.runtimes import Containerd, Docker, Podman, Runtime
from tests.integration.test_slice import SLICE

HOLD = ["/cgpu-probe", "hold=1000"]


def source(runtime: Runtime) -> Listing:
    """Return how this test's own container engine is asked."""
    match runtime:
        case Docker():
            return Listing("docker", partial(docker.ended, Path(runtime.socket.removeprefix("unix://"))))
        case Containerd():
            return Listing("containerd", partial(containerd.ended, runtime.base))
        case Podman():
            return Listing("podman", partial(podman.ended, runtime.base))
    raise AssertionError(runtime.name)


def said(runtime: Runtime) -> Ended:
    """Return what the engine says of its containers; nothing of one that has no engine."""
    return {} if runtime.name == "runc" else source(runtime).ask()


def swept(runtime: Runtime, *, dry_run: bool = False) -> Outcome:
    """Collect with this test's own engine, as far as it has one."""
    asked = [] if runtime.name == "runc" else [source(runtime)]
    return collect(Tree(str(TREE)), dry_run=dry_run, asked=asked)


def registered() -> set[str]:
    return set(Tree(str(TREE)).containers(0))


def put(name: str) -> None:
    """Register by the old form, which names no process and stays until it is removed."""
    (TREE / "inst_ctl").write_text(f"0{name}")


def test_known_by_the_engine_alone(engine: Engine, docker: Docker) -> None:
    """A container that was registered by name stays while it runs, and goes when docker says it has ended."""
    runtime = docker
    runtime.start("gc-named", HOLD, SLICE)
    identity = next(name for name, ended in said(runtime).items() if not ended)
    Tree(str(TREE)).destroy(identity)
    put(identity[:12])
    (stays,) = swept(runtime).judged
    assert (stays.goes, stays.why) == (False, "its processes live")
    runtime.kill("gc-named")
    (goes,) = swept(runtime).judged
    assert (goes.goes, goes.why) == (True, "docker says that it has ended")
    assert registered() == set()
    runtime.remove("gc-named")


@pytest.mark.usefixtures("own_engine")
def test_command(engine: Engine, docker: Docker) -> None:
    """The command asks the docker of DOCKER_HOST, says what it did, and is silent about nothing."""
    put("0123456789ab")
    environment = {"DOCKER_HOST": docker.socket}
    dry = call([CGPU, "gc", "--dry-run"], env=environment)
    assert dry.stdout == "0123456789ab: would be removed: no process is left and no engine knows it\n"
    done = call([CGPU, "gc", "--json"], env=environment)
    assert [one["goes"] for one in json.loads(done.stdout)["judged"]] == [True]
    assert done.returncode == 0, done.text
    assert call([CGPU, "gc"], env=environment).stdout == "no container is registered\n"
    engine.stop()
    down = call([CGPU, "gc"], env=environment)
    assert down.returncode == 1
    assert "the engine is not running" in down.stderr
