# SPDX-License-Identifier: Apache-2.0
"""Slices whose bundles the wrapper's server prepares."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.commands import call
from tests.integration.engine import Engine
from tests.integration.probe import step
from tests.integration.runtimes import Runc
from tests.integration.test_slice import LIMIT, SLICE


@pytest.mark.usefixtures("either")
def test_who_prepares(engine: Engine, runc: Runc, request: pytest.FixtureRequest) -> None:
    """A start execs Python where no server is, and none with one: the slice is the same."""
    bundle = runc.bundle(runc.spec(["/cgpu-probe", "info"], SLICE))
    trace = runc.directory / "trace"
    tracer: list[str | Path] = ["strace", "-qq", "-o", trace, "-e", "trace=execve"]
    outcome = call([*tracer, *runc.base, "run", "--bundle", bundle, "one"])
    assert step(outcome, "info").number("total") == LIMIT
    alone = "alone" in request.node.name
    assert ("python3" in trace.read_text().partition("\n")[2]) == alone
