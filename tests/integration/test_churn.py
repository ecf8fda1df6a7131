# SPDX-License-Identifier: Apache-2.0
"""Supervised calls that signals interrupt."""

from __future__ import annotations

import subprocess

import pytest

from tests.integration.engine import Engine
from tests.integration.probe import step
from tests.integration.runtimes import Runc
from tests.integration.test_slice import SLICE


@pytest.mark.parametrize("interval", [50, 200, 1000])
def test_exactly_once(engine: Engine, runc: Runc, interval: int) -> None:
    """Under a churn of SIGALRM each allocation happens exactly once, as the card itself counts."""
    outcome = runc.run(["/cgpu-probe", f"churn=2000:64K:{interval}", "free=all", "info"], SLICE)
    churn = step(outcome, "churn")
    assert churn.number("granted") == 2000
    assert churn.number("used") == churn.number("bytes") == 2000 * 65536
    assert churn.number("alarms") > 0
    assert step(outcome, "info").number("used") == 0
    engine.await_empty()


def test_exactly_once_beside_others(engine: Engine, runc: Runc) -> None:
    """The same, while other processes of the container make and free objects all the time."""
    runc.start("host", ["/cgpu-probe", "hold=120"], SLICE)
    neighbour = ["/cgpu-probe", *["alloc=1M", "dup", "free=all"] * 400, "hold=60"]
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
    runc.remove("host")
    engine.await_empty()
