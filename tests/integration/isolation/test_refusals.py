# SPDX-License-Identifier: Apache-2.0
"""Invalid input, by docker run and by prepared bundles: each is refused with one exact line."""

from __future__ import annotations

import re

import pytest

from tests.integration.commands import Outcome
from tests.integration.engine import Engine
from tests.integration.runtimes import Docker, Runc
from tests.integration.test_slice import SLICE

AMOUNT_EXPECTED = (
    "expected a whole number or a comma list, one for each GPU, such as 6 or 3,1, or 0 for no slice"
)
AMOUNT = "ALIYUN_COM_GPU_MEM_CONTAINER"
# tests/hook has all of them.
INVALID_VARIABLES: list[tuple[dict[str, str], str]] = [
    ({AMOUNT: "six"}, f"{AMOUNT}=six: {AMOUNT_EXPECTED}"),
    ({"ALIYUN_COM_GPU_VISIBLE_DEVICES": "7"}, "VISIBLE_DEVICES=7: no GPU 7 here; available: 0 (GPU-"),
]


def message(outcome: Outcome) -> str:
    """Return the last line of the wrapper or the hook on stderr. The start must have failed."""
    lines: list[str] = re.findall(r".*opencgpu: .*", outcome.stderr)
    assert outcome.returncode != 0, outcome.text
    assert lines, outcome.text
    return lines[-1]


def test_invalid_variables_through_docker(engine: Engine, docker: Docker) -> None:
    """docker run prints the variable, its value and what is expected; no container is registered."""
    for change, line in INVALID_VARIABLES:
        outcome = docker.run(["/cgpu-probe", "info"], {**SLICE, **change})
        assert line in outcome.text
        assert outcome.returncode != 0
        assert engine.instances() == []


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
