# SPDX-License-Identifier: Apache-2.0
"""Ids of containers that the engine refuses, each with one line that says why."""

from __future__ import annotations

import re

import pytest

from tests.integration.commands import Outcome
from tests.integration.engine import Engine
from tests.integration.runtimes import Runc
from tests.integration.test_slice import SLICE


def message(outcome: Outcome) -> str:
    """Return the last line of the wrapper or the hook on stderr. The start must have failed."""
    lines: list[str] = re.findall(r".*opencgpu: .*", outcome.stderr)
    assert outcome.returncode != 0, outcome.text
    assert lines, outcome.text
    return lines[-1]


@pytest.mark.usefixtures("either")
def test_ids(engine: Engine, runc: Runc) -> None:
    """An id that is the name of an entry of the tree, or starts with 12 characters of another, is refused."""
    bundle = runc.bundle(runc.spec(["/cgpu-probe", "info"], SLICE))
    assert "policy" in message(runc.run_bundle(bundle, "policy"))
    assert engine.instances() == []
    first, second = "0123456789ab" + "0" * 52, "0123456789ab" + "1" * 52
    runc.start(first, ["/cgpu-probe", "hold=1000"], SLICE)
    bundle = runc.bundle(runc.spec(["/cgpu-probe", "info"], SLICE))
    line = message(runc.run_bundle(bundle, second))
    assert f"container {first} has the same first 12 characters; start this one under a new id" in line
    assert engine.instances() == ["0123456789ab"]
