# SPDX-License-Identifier: Apache-2.0
"""The files of examples/ do what they say, with a simulated card."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.commands import call
from tests.integration.engine import MIB, Engine
from tests.integration.images import IMAGE, ROOT
from tests.integration.runtimes import Docker

EXAMPLES = ROOT / "examples"
COMPOSE = EXAMPLES / "compose.yaml"
PROBE = ["/cgpu-probe", "info"]
# Sizes of slices on a card of 15109 MiB: 6 GiB, and a quarter in whole MiB.
SLICES = {"trainer": 6144 * MIB, "inference": 3777 * MIB}
# This dockerd makes no networks, and its image has the probe in place of nvidia-smi.
INSTEAD = {"image": IMAGE, "network_mode": "none", "command": PROBE}


def services() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())["services"]
    return found


@pytest.mark.slow
def test_compose(engine: Engine, docker: Docker, tmp_path: Path) -> None:
    """Each service of the compose file has the slice that it asks for, at the same time."""
    probe = tmp_path / "probe.yaml"
    probe.write_text(yaml.safe_dump({"services": dict.fromkeys(services(), INSTEAD)}))
    files = ["--file", str(COMPOSE), "--file", str(probe)]
    command = ["docker-compose", "--project-name", "opencgpu", *files, "up", "--no-color"]
    environment = {"DOCKER_HOST": docker.socket}
    outcome = call(command, env=environment)
    assert outcome.returncode == 0, outcome.text
    assert services().keys() == SLICES.keys()
    for service, size in SLICES.items():
        lines = [line for line in outcome.stdout.splitlines() if line.startswith(service)]
        assert any(f"total={size} " in line for line in lines), outcome.text


def test_devcontainer(engine: Engine, docker: Docker) -> None:
    """An editor's container, started as the file says, has its slice."""
    stated = json.loads((EXAMPLES / "devcontainer" / "devcontainer.json").read_text())
    assert stated.keys() == {"name", "image", "runArgs", "containerEnv"}
    variables = [word for name, value in stated["containerEnv"].items() for word in ("-e", f"{name}={value}")]
    outcome = docker.call("run", "--rm", "--network", "none", *stated["runArgs"], *variables, IMAGE, *PROBE)
    assert outcome.returncode == 0, outcome.text
    assert f"total={6144 * MIB} " in outcome.stdout
