# SPDX-License-Identifier: Apache-2.0
"""What a container sees of its slice, and what it can have of it."""

from __future__ import annotations

import pytest

from tests.integration.conftest import Start
from tests.integration.engine import MIB, Engine
from tests.integration.probe import NO_MEMORY, step
from tests.integration.runtimes import Docker, Runc

SIX = {"ALIYUN_COM_GPU_MEM_CONTAINER": "6", "ALIYUN_COM_GPU_MEM_DEV": "15"}
SLICE = {**SIX, "NVIDIA_VISIBLE_DEVICES": "0"}
LIMIT = 6043 * MIB
SIZES = ("total", "v1_total", "v2_total", "heap_total", "region_total")
# Published samples: amount, denominator and MiB. tests/hook has those of all cards.
SAMPLES = [
    ("T4=15079", 3, 14, 3231),
    ("V100=16130", 3, 15, 3226),
]


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


def test_huge_pages_round_as_the_driver_rounds(engine: Engine, runc: Runc) -> None:
    """A request of 3 MiB in 2 MiB pages takes 4 MiB, of the container as of the card."""
    outcome = runc.run(["/cgpu-probe", "alloc=3M:2m", "info"], SLICE)
    assert step(outcome, "info").number("used") == 4 * MIB


@pytest.mark.enforcement
def test_every_way_to_ask_is_held(engine: Engine, runc: Runc) -> None:
    """Both RM_ALLOC forms and VID_HEAP_CONTROL are held to the same limit."""
    ways = ("rm64", "rm21", "heap")
    filling = ["fill=256M:2m", "fill=1M:64k", "info", "free=all"]
    outcome = runc.run(["/cgpu-probe", *(word for via in ways for word in (f"via={via}", *filling))], SLICE)
    for number, via in enumerate(ways):
        had = [step(outcome, "fill", 2 * number + part).number("bytes") for part in (0, 1)]
        assert sum(had) == LIMIT, via
        assert step(outcome, "info", number).number("free") == 0, via


@pytest.mark.enforcement
def test_managed_memory_counts(engine: Engine, docker: Docker) -> None:
    """Managed memory and allocations share the limit, in pieces of 2 MiB."""
    words = ["managed=4G", "expect-errno=12", "managed=2G", "fill=64M:64k", "fill=64K:64k", "count"]
    outcome = docker.run(["/cgpu-probe", *words, "unmanaged", "info"], SIX)
    assert outcome.returncode == 0, outcome.text
    assert step(outcome, "count").number("bytes") == LIMIT - 4096 * MIB


@pytest.mark.enforcement
def test_published_samples(start: Start, runc: Runc) -> None:
    """The published samples of CONTAINER and DEV give the published sizes."""
    for cards, container, dev, mib in SAMPLES:
        start(cards)
        env = {**SLICE, "ALIYUN_COM_GPU_MEM_CONTAINER": str(container), "ALIYUN_COM_GPU_MEM_DEV": str(dev)}
        outcome = runc.run(["/cgpu-probe", "info", "fill=64M:2m", "fill=1M:64k"], env)
        assert step(outcome, "info").number("total") == mib * MIB
        assert step(outcome, "fill").number("bytes") + step(outcome, "fill", 1).number("bytes") == mib * MIB


def test_not_sliced(start: Start, docker: Docker) -> None:
    """An amount of zero means: not sliced, and nothing is registered; so does a GPU without an amount."""
    engine = start("A10:4")
    zero = {"ALIYUN_COM_GPU_MEM_CONTAINER": "0", "ALIYUN_COM_GPU_MEM_DEV": "23"}
    for name, amount in (("zero", zero), ("silent", {})):
        env = {"NVIDIA_VISIBLE_DEVICES": "all", **amount}
        docker.start(name, ["/busybox", "sleep", "60"], env, "-v", "/bin/busybox:/busybox:ro")
        assert docker.exec(name, ["/busybox", "true"]).returncode == 0
        assert all(engine.instances(gpu) == [] for gpu in engine.gpus())
