# SPDX-License-Identifier: Apache-2.0
"""Containers in trouble that nobody sees are named by `cgpu doctor`, `status` and `events`, with the cure."""

from __future__ import annotations

import json
import os
import signal

import pytest

from cgpu.process_identity import parse
from tests.integration.commands import call, eventually, must
from tests.integration.engine import CGPU, CGPUD, RUN, Engine
from tests.integration.runtimes import Docker
from tests.integration.test_slice import SLICE

HOLD = ["/cgpu-probe", "hold=1000"]
pytestmark = pytest.mark.usefixtures("own_engine")


def said(docker: Docker, name: str) -> tuple[str, str]:
    """Return what doctor finds under a name, and the lines of status."""
    env = {"DOCKER_HOST": docker.socket}
    findings = json.loads(call([CGPU, "doctor", "--json"], env).stdout)["findings"]
    found = "; ".join(f"{one['text']}: {one['fix']}" for one in findings if one["name"] == name)
    return found, call([CGPU, "status"], env).text


def assert_named(docker: Docker, check: str, text: str, fix: str) -> None:
    """Doctor and status name the trouble; the command that they name ends it."""
    found, status = said(docker, check)
    for shown in (found, status):
        assert text in shown, shown
        assert fix in shown, shown
    docker.call(*fix.split()[1:])
    found, status = said(docker, check)
    assert text not in found + status


def assert_stranded(docker: Docker, name: str, reason: str) -> None:
    assert docker.exec(name, ["/cgpu-probe", "info"]).returncode != 0
    words = ["events", "--format", "json", "--filter", "event=stranded", "--filter", f"container={name}"]
    # cgpud looks for such containers once it serves.
    eventually(lambda: must([CGPU, *words]).stdout, "the event is written")
    (event,) = must([CGPU, *words]).stdout.splitlines()
    assert reason in json.loads(event)["message"]
    assert json.loads(event)["name"] == name
    assert_named(
        docker, "stranded", f"{name}: it runs on without its GPU: {reason}", f"docker restart {name}"
    )
    assert docker.exec(name, ["/cgpu-probe", "info"]).returncode == 0
    docker.remove(name)


def test_restart_that_was_refused_while_cgpud_was_away(engine: Engine, docker: Docker) -> None:
    """A container that docker could not start again stays exited; one that never ran is no news."""
    name = f"again-{os.getpid()}"
    assert docker.start(name, HOLD, SLICE, "--restart", "always").returncode == 0
    pid = int(docker.call("inspect", "--format", "{{.State.Pid}}", name).stdout)
    must([CGPUD, "--stop"])
    os.kill(pid, signal.SIGKILL)
    state = ("inspect", "--format", "{{.State.Status}} {{.State.Error}}", name)
    eventually(lambda: docker.call(*state).stdout.startswith("exited "), "docker gives up")
    assert docker.start("never", HOLD, SLICE).returncode != 0
    engine.start()
    found, status = said(docker, "refused-restarts")
    assert "never" not in found + status
    assert_named(docker, "refused-restarts", f"{name}: has stayed exited", f"docker start {name}")
    docker.clear()


def test_descriptors_that_were_lost(engine: Engine, docker: Docker) -> None:
    """A container whose descriptors went with cgpud and its keeper has no GPU any more."""
    name = f"lost-{os.getpid()}"
    assert docker.start(name, HOLD, SLICE).returncode == 0
    keeper = parse((RUN / "cgpud.lock").read_bytes()).pid
    os.kill(keeper, signal.SIGKILL)
    engine.kill()
    call([CGPU, "doctor", "--fix"])
    engine.start()
    assert_stranded(docker, name, "cgpud and what kept its descriptors have ended")


def test_server_of_the_cards_that_was_killed(engine: Engine, docker: Docker) -> None:
    """A container whose simulated card was killed is named as soon as another server has the card."""
    name = f"card-{os.getpid()}"
    assert docker.start(name, HOLD, SLICE).returncode == 0
    os.kill(json.loads((RUN / "sim.json").read_text())["pid"], signal.SIGKILL)
    command = f"cgpud --stop; cgpud --simulate T4 --config {engine.config}"

    def is_told() -> bool:
        found, status = said(docker, "engine-driver")
        return "the simulated cards do not answer" in found and command in found and command in status

    eventually(is_told, "doctor and status say it", instead=lambda: said(docker, "engine-driver"))
    must([CGPUD, "--stop"])
    engine.start()
    assert_stranded(docker, name, "the server of the simulated cards has ended")
