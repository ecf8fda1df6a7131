# SPDX-License-Identifier: Apache-2.0
"""The runtime dies at bad moments, and the engine is away."""

from __future__ import annotations

import pytest

from tests.integration.commands import call, eventually
from tests.integration.conftest import Start
from tests.integration.engine import CGPUD, Engine
from tests.integration.runtimes import Runc
from tests.integration.test_slice import SLICE


@pytest.mark.parametrize("moment", ["before", "start", "running"])
def test_runtime_killed(engine: Engine, runc: Runc, moment: str) -> None:
    """kill -9 of the runtime, early, while it starts and later: nothing is left, and the next one starts."""
    bundle = runc.bundle(runc.spec(["/cgpu-probe", "alloc=1G", "hold=1000"], SLICE))
    process = runc.spawn(bundle, "victim")
    if moment == "start":
        eventually(lambda: engine.instances() == ["victim"], "it is registered")
    if moment == "running":
        eventually(lambda: engine.instances() == ["victim"] and engine.used("0", "victim"), "it runs")
    process.kill()
    process.wait()
    runc.remove("victim")
    engine.await_empty()
    assert runc.run(["/cgpu-probe", "info"], SLICE).returncode == 0


@pytest.mark.usefixtures("own_engine", "either")
def test_while_the_engine_is_down(start: Start, runc: Runc) -> None:
    """After a clean stop sliced containers are refused with the command that helps; others are not affected.

    The node's prohibitions stay in force.
    """
    engine = start("T4", allow_disable=False, default_memsize=1 << 30)
    assert call([CGPUD, "--stop"]).returncode == 0
    refused = runc.run(["/cgpu-probe", "info"], SLICE)
    assert refused.returncode != 0
    assert f"cannot start; start it: cgpud --simulate T4 --config {engine.config}" in refused.text
    for env in ({"CGPU_DISABLE": "1", "NVIDIA_VISIBLE_DEVICES": "0"}, {"NVIDIA_VISIBLE_DEVICES": "0"}):
        refused = runc.run(["/cgpu-probe", "--help"], env)
        assert refused.returncode != 0
        assert "opencgpu: " in refused.text
    assert runc.run(["/cgpu-probe", "--help"], {}).returncode == 0
    engine.start()
    assert runc.run(["/cgpu-probe", "info"], SLICE).returncode == 0
