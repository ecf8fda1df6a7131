# SPDX-License-Identifier: Apache-2.0
"""A container's view of its slice, and how much of it it can have."""

from __future__ import annotations

import pytest

from tests.integration.engine import MIB, Engine
from tests.integration.probe import NO_MEMORY, step
from tests.integration.runtimes import Docker

SIX = {"ALIYUN_COM_GPU_MEM_CONTAINER": "6", "ALIYUN_COM_GPU_MEM_DEV": "15"}
SLICE = {**SIX, "NVIDIA_VISIBLE_DEVICES": "0"}
LIMIT = 6043 * MIB
SIZES = ("total", "v1_total", "v2_total", "heap_total", "region_total")


@pytest.mark.enforcement
def test_docker_slice_is_exact(engine: Engine, docker: Docker) -> None:
    """docker run with 6 of 15 sees 6043 MiB everywhere and gets exactly that many bytes in 64 KiB pages."""
    words = ["info", "fill=1M:64k", "expect=0x51", "alloc=64K:64k", "info"]
    outcome = docker.run(["/cgpu-probe", *words], SIX)
    seen = step(outcome, "info")
    assert {seen.number(field) for field in SIZES} == {LIMIT}
    assert step(outcome, "fill").number("bytes") == LIMIT
    assert step(outcome, "alloc").number("status") == NO_MEMORY
    assert step(outcome, "info", 1).number("free") == 0
