# SPDX-License-Identifier: Apache-2.0
"""Signals and deaths at bad moments: of programs in containers, of the runtime and of the engine."""

from __future__ import annotations

import subprocess
import time

import pytest

from cgpu import paths
from tests.integration.commands import call, eventually
from tests.integration.conftest import Start
from tests.integration.engine import CGPUD, MIB, Engine
from tests.integration.probe import step
from tests.integration.runtimes import Runc
from tests.integration.test_slice import LIMIT, SLICE


def test_closed_and_reopened(engine: Engine, runc: Runc) -> None:
    """A live process that closes nvidiactl without freeing can have its whole slice again."""
    words = ["fill=512M:2m", "close", "reopen", "fill=512M:2m", "close", "reopen", "fill=512M:2m"]
    outcome = runc.run(["/cgpu-probe", *words], SLICE)
    assert [step(outcome, "fill", i).number("bytes") for i in range(3)] == [
        LIMIT // (512 * MIB) * 512 * MIB
    ] * 3


def test_clients_without_memory_are_forgotten(engine: Engine, runc: Runc) -> None:
    """A process may open and close nvidiactl more often than the engine has records for clients."""
    outcome = runc.run(["/cgpu-probe", *["close", "reopen", "info"] * 4200, "alloc=64K"], SLICE)
    assert outcome.returncode == 0, outcome.stdout[-500:]
    assert step(outcome, "alloc").number("status") == 0


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


def test_runtime_killed_at_any_time(engine: Engine, runc: Runc) -> None:
    """kill -9 of the runtime after 0 to 120 ms: nothing is left whatever it was doing."""
    for step_ms in range(0, 120, 4):
        name = f"cut{step_ms}"
        bundle = runc.bundle(runc.spec(["/cgpu-probe", "alloc=64M", "hold=1000"], SLICE), name)
        process = runc.spawn(bundle, name)
        time.sleep(step_ms / 1000)
        process.kill()
        process.wait()
        runc.remove(name)
    engine.await_empty()
    assert runc.run(["/cgpu-probe", "info"], SLICE).returncode == 0


@pytest.mark.usefixtures("own_engine")
def test_engine_dies(engine: Engine, runc: Runc) -> None:
    """kill -9 of cgpud: the next one takes up listeners and charges, and calls of containers succeed."""
    runc.start("survivor", ["/cgpu-probe", "alloc=2G", "hold=1000"], SLICE)
    eventually(lambda: engine.used("0", "survivor") == 2 << 30, "2 GiB are charged")
    for _ in range(2):
        engine.await_restart(engine.kill())
        assert engine.used("0", "survivor") == 2 << 30
        outcome = runc.exec("survivor", ["/cgpu-probe", "info", "fill=64M:2m"])
        assert step(outcome, "info").number("free") == LIMIT - (2 << 30)
        assert step(outcome, "fill").number("bytes") == (LIMIT - (2 << 30)) // (64 * MIB) * 64 * MIB
        eventually(lambda: engine.used("0", "survivor") == 2 << 30, "the second process's charge is gone")


@pytest.mark.usefixtures("own_engine", "either")
def test_while_the_engine_is_down(start: Start, runc: Runc) -> None:
    """After a clean stop sliced containers are refused with the command that helps; others are not affected.

    What the node's settings forbid stays forbidden.
    """
    engine = start("T4", allow_disable=False, default_memsize=1 << 30)
    assert call([CGPUD, "--stop"]).returncode == 0
    refused = runc.run(["/cgpu-probe", "info"], SLICE)
    assert refused.returncode != 0
    assert f"cannot start; start it: {paths.daemon_command('start')}" in refused.text
    for env in ({"CGPU_DISABLE": "1", "NVIDIA_VISIBLE_DEVICES": "0"}, {"NVIDIA_VISIBLE_DEVICES": "0"}):
        refused = runc.run(["/cgpu-probe", "--help"], env)
        assert refused.returncode != 0
        assert "opencgpu: " in refused.text
    assert runc.run(["/cgpu-probe", "--help"], {}).returncode == 0
    engine.start()
    assert runc.run(["/cgpu-probe", "info"], SLICE).returncode == 0


def test_calls_that_signals_interrupt_happen_once(engine: Engine, runc: Runc) -> None:
    """Under a churn of SIGALRM each allocation happens exactly once, as the card itself counts.

    Other processes of the container make and free objects all the time.
    """
    runc.start("host", ["/cgpu-probe", "hold=1000"], SLICE)
    neighbour = ["/cgpu-probe", *["alloc=1M", "dup", "free=all"] * 400, "hold=1000"]
    with subprocess.Popen(
        [*runc.base, "exec", "host", *neighbour], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    ) as busy:
        outcome = runc.exec("host", ["/cgpu-probe", "churn=1500:64K:50", "free=all", "info"])
        assert busy.poll() is None
        runc.kill("host")
    churn = step(outcome, "churn")
    assert churn.number("granted") == 1500
    assert churn.number("bytes") == 1500 * 65536
    assert step(outcome, "info").number("used") <= 1 << 20
    assert churn.number("alarms") > 0
