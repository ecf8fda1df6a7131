# SPDX-License-Identifier: Apache-2.0
"""cgpu gc beside docker: what lives stays."""

from __future__ import annotations

import json

import pytest

from tests.integration.commands import call
from tests.integration.engine import CGPU, Engine
from tests.integration.runtimes import Docker
from tests.integration.test_slice import SLICE

HOLD = ["/cgpu-probe", "hold=1000"]


@pytest.mark.usefixtures("own_engine")
def test_command(engine: Engine, docker: Docker) -> None:
    """The command asks the docker of DOCKER_HOST, and leaves what runs."""
    environment = {"DOCKER_HOST": docker.socket}
    docker.start("gc", HOLD, SLICE)
    done = call([CGPU, "gc", "--json"], env=environment)
    assert [one["why"] for one in json.loads(done.stdout)["judged"]] == ["its processes live"]
    assert done.returncode == 0, done.text
    docker.remove("gc")
    assert call([CGPU, "gc"], env=environment).stdout == "no container is registered\n"
    engine.stop()
    down = call([CGPU, "gc"], env=environment)
    assert down.returncode == 1
    assert "the engine is not running" in down.stderr
