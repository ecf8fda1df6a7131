# SPDX-License-Identifier: Apache-2.0
"""cgpu doctor, status and support-bundle on a node with a real cgpud, also one that is not well."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import cgpu
from cgpu.process_identity import parse
from tests.integration.commands import Outcome, call, eventually, must
from tests.integration.conftest import Start
from tests.integration.engine import CGPU, RUN, TREE, Engine
from tests.integration.runtimes import Docker, Runc
from tests.integration.test_slice import SLICE

SCHEMA = Path(cgpu.__file__).parent / "install" / "commands" / "doctor.schema.json"
SECRET = "hunter2S3CRET"  # noqa: S105, made up
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


@pytest.fixture
def planted(tmp_path: Path) -> Iterator[list[str]]:
    """A secret in a command line and in docker's settings; returns words to start a command there."""
    settings = tmp_path / "settings"
    settings.mkdir()
    proxies = {
        "proxies": {"https-proxy": f"http://me:{SECRET}@proxy:1"},
        "runtimes": {"cgpu": {"path": "/x"}},
    }
    document = {**proxies, "insecure-registries": [SECRET], "default-runtime": "runc"}
    (settings / "daemon.json").write_text(json.dumps(document))
    Path("/etc/docker").mkdir(exist_ok=True)
    script = f'mount --bind {settings} /etc/docker && exec "$@"'
    with subprocess.Popen(["/bin/sh", "-c", "read x", SECRET], stdin=subprocess.PIPE) as process:
        yield ["unshare", "--mount", "--propagation=slave", "sh", "-c", script, "sh"]
        process.kill()


def contents(archive: tarfile.TarFile) -> dict[str, bytes]:
    found = {}
    for one in archive:
        stream = archive.extractfile(one)
        assert stream is not None
        found[one.name] = stream.read()
    return found


def test_bundle(start: Start, docker: Docker, tmp_path: Path, planted: list[str]) -> None:
    """A bundle has what support needs, and none of the secrets that are planted around it."""
    start("T4")
    environment = {**SLICE, "DB_PASSWORD": SECRET}
    assert docker.start("bundle", ["/cgpu-probe", "hold=1000", SECRET], environment).returncode == 0
    refused = {"OPENCGPU_MEM": f"6 {SECRET}", "NVIDIA_VISIBLE_DEVICES": "0"}
    assert docker.run(["/cgpu-probe", "info"], refused).returncode != 0
    path = tmp_path / "bundle.tar.gz"
    must([*planted, CGPU, "support-bundle", "--output", path], env={"HTTPS_PROXY": SECRET})
    assert path.stat().st_mode & 0o7777 == 0o600
    with tarfile.open(path) as archive:
        files = contents(archive)
    assert not [name for name, content in files.items() if SECRET.encode() in content]
    assert b"listener attached" in files["cgpu-support/log/cgpud.txt"]
    events = [json.loads(line) for line in files["cgpu-support/log/events.txt"].splitlines()]
    assert events[-1]["message"] == "OPENCGPU_MEM: [left out]"
    told = [one["event"] for one in events if one["event"] != "named"]
    assert told[-2:] == ["started", "refused"]
    tree = json.loads(files["cgpu-support/tree.json"])
    assert len(tree["cards"][0]["slices"]) == 1
    engines = json.loads(files["cgpu-support/engines.json"])
    assert {"engine": "docker", "file": "/etc/docker/daemon.json", "runtime": "/x", "default": "runc",
            "problem": None, "cdi": None} in engines  # fmt: skip
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(
        json.loads(files["cgpu-support/doctor.json"])
    )
    assert len(json.loads(files["cgpu-support/manifest.json"])["files"]) == len(files) - 1


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
    start = f"cgpud --simulate T4 --config {engine.config}"
    assert text(document, "engine") == f"{TREE}: the engine is not running {start}"
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
def test_bundle_follows_no_link(start: Start, tmp_path: Path) -> None:
    """A link in the log's place, or a configuration with a mistake, brings nothing of what is behind it."""
    engine = start("T4")
    secret = tmp_path / "secret"
    secret.write_text(f"line {SECRET}\n")
    (RUN / "cgpud.log").unlink()
    (RUN / "cgpud.log").symlink_to(secret)
    engine.config.write_text(f"password: {SECRET}\n")
    path = tmp_path / "bundle.tar.gz"
    must([CGPU, "support-bundle", "--output", path])
    with tarfile.open(path) as archive:
        files = contents(archive)
    assert "cgpu-support/log/cgpud.txt" not in files
    assert SECRET.encode() not in b"".join(files.values())
    (RUN / "cgpud.log").unlink()
    assert call([CGPU, "support-bundle", "--output", path]).returncode == 1
