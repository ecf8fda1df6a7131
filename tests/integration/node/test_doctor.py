# SPDX-License-Identifier: Apache-2.0
"""cgpu doctor, gc and status on a node with a real cgpud, also one that is not well."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import cgpu
from cgpu.kmod.daemon.processes.process_identity import parse
from tests.integration.commands import Outcome, call, eventually, must
from tests.integration.conftest import Start
from tests.integration.engine import CGPU, RUN, TREE, Engine
from tests.integration.runtimes import Docker, Runc
from tests.integration.test_slice import SLICE

SCHEMA = Path(cgpu.__file__).parent / "install" / "commands" / "doctor.schema.json"
OURS = (
    "engine",
    "tree",
    "listener",
    "descriptor-store",
    "permissions",
    "configuration-in-force",
    "containers",
)


def doctor(*words: str) -> tuple[Outcome, dict[str, Any]]:
    """Run doctor; return what came of it, with its document checked against the schema."""
    done = call([CGPU, "doctor", "--json", *words])
    document = json.loads(done.stdout)
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(document)
    assert done.returncode == (0 if document["good"] else 1)
    return done, document


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["verdict"] for one in document["findings"] if one["name"] in OURS}


def text(document: dict[str, Any], name: str) -> str:
    return next(f"{one['text']} {one['fix']}" for one in document["findings"] if one["name"] == name)


def test_well(start: Start, runc: Runc) -> None:
    """With a sliced container on it, a node is well; a setting beside the file is told."""
    start("T4:2", policy=0)
    runc.start("doc", ["/cgpu-probe", "hold=1000"], SLICE)
    _, document = doctor()
    assert verdicts(document) == dict.fromkeys(OURS, "ok")
    assert document["engine"] == {
        "wanted": "daemon", "running": "cgpud", "version": cgpu.__version__, "tree": str(TREE)
    }  # fmt: skip
    shown = must([CGPU, "doctor", "--all"]).stdout
    assert "cgpud's keeper holds them" in shown


def test_daemon_that_hangs(engine: Engine) -> None:
    """A daemon that does not answer does not hold doctor or status up."""
    pid = engine.pid()
    os.kill(pid, signal.SIGSTOP)
    try:
        with subprocess.Popen([CGPU, "status"], stdout=subprocess.DEVNULL) as status:
            _, document = doctor()
            assert "does not answer" in text(document, "engine")
            assert status.wait(60) == 1
    finally:
        os.kill(pid, signal.SIGCONT)


def test_not_root() -> None:
    """A user who is not root is told so in one line."""
    for words in (["doctor"], ["status"], ["gc"]):
        done = call(["setpriv", "--reuid=65534", "--clear-groups", CGPU, *words])
        assert done.returncode == 1
        assert f"cgpu {words[0]}" in done.stderr
        assert done.stderr.count("\n") == 1


@pytest.mark.usefixtures("own_engine")
def test_down_and_gone(engine: Engine) -> None:
    """A daemon that died with its keeper leaves a mount: doctor says so, and takes it away."""
    keeper = parse((RUN / "cgpud.lock").read_bytes()).pid
    os.kill(keeper, signal.SIGKILL)
    # The daemon learns of it a moment later.
    eventually(
        lambda: verdicts(doctor()[1])["descriptor-store"] == "warning", "doctor sees that the keeper is gone"
    )
    engine.kill()
    eventually(lambda: "still mounted" in text(doctor()[1], "engine"), "doctor sees that the daemon is gone")
    _, document = doctor("--fix")
    assert document["fixed"] == [f"engine: unmounted {TREE}"]
    assert text(document, "engine") == f"{TREE}: the engine is not running cgpud"
    assert call([CGPU, "status"]).returncode == 1
    engine.start()
    assert verdicts(doctor()[1])["engine"] == "ok"


@pytest.mark.usefixtures("own_engine")
def test_fix(engine: Engine) -> None:
    """A changed file is put in force, open folders are closed, registrations without a process go."""
    assert verdicts(doctor()[1])["configuration-in-force"] == "ok"
    engine.config.write_text("policy: 3\n")
    RUN.chmod(0o755)
    _, document = doctor()
    assert verdicts(document)["configuration-in-force"] == verdicts(document)["permissions"] == "problem"
    assert "policy cgpu doctor --fix" in text(document, "configuration-in-force")
    _, document = doctor("--fix")
    assert verdicts(document)["permissions"] == verdicts(document)["configuration-in-force"] == "ok"
    assert "configuration-in-force: in force in cgpud" in document["fixed"]
    assert engine.read("0/policy").strip() == "3"
    other = call([CGPU, "config", "set", "policy", "1", "--apply"])
    assert f"cgpud was started with --config {engine.config}" in other.stderr
    assert not Path("/etc/cgpu/config.yaml").exists()
    assert RUN.stat().st_mode & 0o7777 == 0o700
    assert any(line.startswith("permissions: closed") for line in document["fixed"])


@pytest.mark.usefixtures("own_engine")
def test_gc(engine: Engine, docker: Docker) -> None:
    """cgpu gc asks the docker of DOCKER_HOST, and leaves what runs."""
    environment = {"DOCKER_HOST": docker.socket}
    docker.start("gc", ["/cgpu-probe", "hold=1000"], SLICE)
    done = call([CGPU, "gc", "--json"], env=environment)
    assert [one["why"] for one in json.loads(done.stdout)["judged"]] == ["its processes live"]
    assert done.returncode == 0, done.text
    docker.remove("gc")
    assert call([CGPU, "gc"], env=environment).stdout == "no container is registered\n"
    engine.stop()
    down = call([CGPU, "gc"], env=environment)
    assert down.returncode == 1
    assert "the engine is not running" in down.stderr
