# SPDX-License-Identifier: Apache-2.0
"""Containers that share a card."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.commands import eventually
from tests.integration.conftest import Start
from tests.integration.engine import MIB, Engine
from tests.integration.probe import NO_MEMORY, step
from tests.integration.runtimes import Docker, Runc
from tests.integration.test_slice import LIMIT, SIX, SLICE


@pytest.fixture
def first(engine: Engine, runc: Runc) -> Iterator[str]:
    """Return the name of a container that holds all of its 6043 MiB."""
    runc.start("first", ["/cgpu-probe", "fill=512M:2m", "fill=1M:64k", "hold=1000"], SLICE)
    eventually(lambda: engine.used("0", "first") == LIMIT, "the first container holds its slice")
    yield "first"
    runc.remove("first")


@pytest.mark.enforcement
def test_a_full_neighbour_takes_nothing_away(engine: Engine, runc: Runc, first: str) -> None:
    """Whatever one container holds, the other gets the whole of its own slice and not a page more."""
    outcome = runc.run(["/cgpu-probe", "info", "fill=512M:2m", "fill=1M:64k", "alloc=64K:64k"], SLICE)
    assert step(outcome, "info").number("free") == LIMIT
    assert step(outcome, "fill").number("bytes") + step(outcome, "fill", 1).number("bytes") == LIMIT
    assert step(outcome, "alloc").number("status") == NO_MEMORY
    assert engine.used("0", first) == LIMIT


def test_more_than_the_card_is_never_promised(engine: Engine, docker: Docker) -> None:
    """A third container that would promise more than the card has is refused and told what is left."""
    for name in ("one", "two"):
        assert docker.start(name, ["/cgpu-probe", "hold=1000"], SIX).returncode == 0
    third = docker.run(["/cgpu-probe", "info"], SIX)
    assert third.returncode != 0
    assert f"{15109 - 2 * 6043} MiB" in third.text
    assert len(engine.instances()) == 2
    fits = docker.run(["/cgpu-probe", "info"], {**SIX, "ALIYUN_COM_GPU_MEM_CONTAINER": "3"})
    assert step(fits, "info").number("total") == 3021 * MIB


def test_weights_run_out(start: Start, runc: Runc) -> None:
    """A container that finds too little weight left is refused and told how much is left."""
    engine = start("T4", max_inst=5)
    small = {**SLICE, "ALIYUN_COM_GPU_MEM_CONTAINER": "1"}
    runc.start("heavy", ["/cgpu-probe", "hold=1000"], {**small, "ALIYUN_COM_GPU_SCHD_WEIGHT": "4"})
    assert engine.read("0/policy") == "2\n"
    assert engine.read("0/free_weight") == "1\n"
    refused = runc.run(["/cgpu-probe", "info"], {**small, "ALIYUN_COM_GPU_SCHD_WEIGHT": "2"})
    assert refused.returncode != 0
    assert "1" in refused.text
    assert "weight" in refused.text
    assert runc.run(["/cgpu-probe", "info"], small).returncode == 0
