# SPDX-License-Identifier: Apache-2.0
"""What a container sees of its slice, and what it can have of it."""

from __future__ import annotations

import os

import pytest

from tests.integration.commands import eventually
from tests.integration.conftest import Start
from tests.integration.engine import MIB, Engine
from tests.integration.probe import NO_MEMORY, step
from tests.integration.runtimes import Docker, Runc, Runtime

SIX = {"ALIYUN_COM_GPU_MEM_CONTAINER": "6", "ALIYUN_COM_GPU_MEM_DEV": "15"}
SLICE = {**SIX, "NVIDIA_VISIBLE_DEVICES": "0"}
LIMIT = 6043 * MIB
PAGE = 64 << 10
SIZES = ("total", "v1_total", "v2_total", "heap_total", "region_total")
SAMPLES = [
    ("T4=15079", 3, 14, 3231),
    ("V100=16130", 3, 15, 3226),
    ("V100=16130", 4, 15, 4301),
    ("V100=16130", 2, 15, 2150),
    ("T4", 6, 15, 6043),
    ("T4=15360", 3, 15, 3072),
    ("A10=23028", 8, 22, 8373),
]


@pytest.mark.enforcement
def test_docker_slice_is_exact(engine: Engine, docker: Docker) -> None:
    """docker run with 6 of 15 sees 6043 MiB everywhere and gets exactly that many bytes in 64 KiB pages."""
    outcome = docker.run(["/cgpu-probe", "info", "fill=64K:64k", "info"], SIX)
    seen = step(outcome, "info")
    assert {seen.number(field) for field in SIZES} == {LIMIT}
    had = step(outcome, "fill")
    assert had.number("bytes") == LIMIT
    assert had.number("status") == NO_MEMORY
    assert step(outcome, "info", 1).number("free") == 0


def test_enforcement_off_lets_it_over(start: Start, runc: Runc) -> None:
    """With enforcement off the same program takes more than its slice: the test above does test something."""
    start("T4", enforce=False)
    outcome = runc.run(["/cgpu-probe", "fill=512M", "info"], SLICE)
    assert step(outcome, "fill").number("bytes") > LIMIT
    assert step(outcome, "info").number("total") == 15109 * MIB


def test_huge_pages_round_as_the_driver_rounds(engine: Engine, runc: Runc) -> None:
    """A request of 3 MiB in 2 MiB pages takes 4 MiB, of the container as of the card."""
    outcome = runc.run(["/cgpu-probe", "alloc=3M:2m", "info"], SLICE)
    assert step(outcome, "info").number("used") == 4 * MIB


@pytest.mark.enforcement
@pytest.mark.usefixtures("either")
def test_one_page_more_is_refused_and_freed_memory_comes_back(engine: Engine, runc: Runc) -> None:
    """At the limit one page is refused with out of memory; what is freed can be had again."""
    fill = ["fill=1G:2m", "fill=1M:64k", "fill=64K:64k"]
    words = [
        *fill,
        "expect=0x51",
        "alloc=64K:64k",
        "free=last",
        "alloc=1M:64k",
        "expect=0x51",
        "alloc=64K:64k",
    ]
    outcome = runc.run(["/cgpu-probe", *words, "info"], SLICE)
    assert sum(step(outcome, "fill", i).number("bytes") for i in range(3)) == LIMIT
    assert step(outcome, "alloc", 0).number("status") == NO_MEMORY
    assert step(outcome, "alloc", 1).number("status") == 0
    assert step(outcome, "alloc", 2).number("status") == NO_MEMORY
    assert step(outcome, "info").number("free") == 0


@pytest.mark.enforcement
@pytest.mark.parametrize("via", ["rm64", "rm21", "heap"])
def test_every_way_to_ask_is_held(engine: Engine, runc: Runc, via: str) -> None:
    """Both RM_ALLOC forms and VID_HEAP_CONTROL are held to the same limit."""
    outcome = runc.run(["/cgpu-probe", f"via={via}", "fill=256M:2m", "fill=64K:64k", "info"], SLICE)
    assert step(outcome, "fill").number("bytes") + step(outcome, "fill", 1).number("bytes") == LIMIT
    assert step(outcome, "info").number("free") == 0


@pytest.mark.enforcement
def test_managed_memory_counts(engine: Engine, docker: Docker) -> None:
    """Managed memory and allocations share the limit, in pieces of 2 MiB."""
    words = ["managed=4G", "expect-errno=12", "managed=2G", "fill=64M:64k", "fill=64K:64k", "count"]
    outcome = docker.run(["/cgpu-probe", *words, "unmanaged", "info"], SIX)
    assert outcome.returncode == 0, outcome.text
    assert step(outcome, "count").number("bytes") == LIMIT - 4096 * MIB


@pytest.mark.enforcement
@pytest.mark.parametrize(("cards", "container", "dev", "mib"), SAMPLES)
def test_published_samples(start: Start, runc: Runc, cards: str, container: int, dev: int, mib: int) -> None:
    """Every published sample of CONTAINER and DEV gives the published size."""
    start(cards)
    env = {**SLICE, "ALIYUN_COM_GPU_MEM_CONTAINER": str(container), "ALIYUN_COM_GPU_MEM_DEV": str(dev)}
    outcome = runc.run(["/cgpu-probe", "info", "fill=64M:2m", "fill=64K:64k"], env)
    assert step(outcome, "info").number("total") == mib * MIB
    assert step(outcome, "fill").number("bytes") + step(outcome, "fill", 1).number("bytes") == mib * MIB


@pytest.mark.enforcement
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("amounts", ["3", "3,1", "3,4,5,6"])
def test_list_forms(start: Start, docker: Docker, count: int, amounts: str) -> None:
    """A list gives each GPU its size in order, and its last value repeats."""
    values = [int(value) for value in amounts.split(",")][:count]
    start(f"A10:{count}")
    env = {
        "ALIYUN_COM_GPU_MEM_CONTAINER": ",".join(map(str, values)),
        "ALIYUN_COM_GPU_MEM_DEV": "23",
        "NVIDIA_VISIBLE_DEVICES": "all",
    }
    words = [word for gpu in range(count) for word in (f"gpu={gpu}", "info")]
    outcome = docker.run(["/cgpu-probe", *words], env)
    wanted = (values + values[-1:] * count)[:count]
    assert [step(outcome, "info", gpu).number("total") for gpu in range(count)] == [
        23028 * value // 23 * MIB for value in wanted
    ]


@pytest.mark.parametrize("amount", [None, "0", "0,0,0"])
def test_not_sliced_forms(start: Start, docker: Docker, amount: str | None) -> None:
    """Nothing said, and an amount of zero mean: not sliced, and nothing is registered."""
    engine = start("A10:4")
    env = {"NVIDIA_VISIBLE_DEVICES": "all"}
    if amount is not None:
        env |= {"ALIYUN_COM_GPU_MEM_CONTAINER": amount, "ALIYUN_COM_GPU_MEM_DEV": "23"}
    docker.start("plain", ["/busybox", "sleep", "60"], env, "-v", "/bin/busybox:/busybox:ro")
    assert docker.exec("plain", ["/busybox", "true"]).returncode == 0
    assert all(engine.instances(gpu) == [] for gpu in engine.gpus())


def with_other_card(spec: dict[str, object]) -> dict[str, object]:
    """Give a container the node of the second card too, as one that can make nodes has it."""
    mounts = spec["mounts"]
    assert isinstance(mounts, list)
    source = "/run/cgpu/sim/nvidia1"
    mounts.append(
        {"destination": "/dev/nvidia1", "type": "bind", "source": source, "options": ["bind", "rw"]}
    )
    return spec


@pytest.mark.parametrize("enforce", [True, False])
def test_gpu_not_granted_is_refused(start: Start, runc: Runc, *, enforce: bool) -> None:
    """A container with one of two cards cannot use the other, even with its node; unenforced it can."""
    start("T4:2", enforce=enforce)
    words = ["/cgpu-probe", "gpu=1", "alloc=1M"]
    outcome = runc.run_bundle(runc.bundle(with_other_card(runc.spec(words, SLICE))), "curious")
    assert (outcome.returncode == 0) is not enforce
    assert "No such file" not in outcome.text


@pytest.mark.enforcement
def test_through_each_runtime(engine: Engine, runtime: Runtime) -> None:
    """Through each runtime the container sees its slice, is refused one byte more, and leaves nothing."""
    words = ["info", "fill=512M:2m", "fill=1M:64k", "expect=0x51", "alloc=64K", "info"]
    outcome = runtime.run(["/cgpu-probe", *words], SLICE)
    assert step(outcome, "info").number("total") == LIMIT
    assert step(outcome, "alloc").number("status") == NO_MEMORY
    assert step(outcome, "info", 1).number("free") == 0


@pytest.mark.enforcement
def test_life_through_each_runtime(engine: Engine, runtime: Runtime) -> None:
    """Started, joined by exec, killed and removed: the tree follows, and is empty in the end."""
    name = f"life-{runtime.name}-{os.getpid()}"
    started = runtime.start(name, ["/cgpu-probe", "alloc=1G", "hold=60"], SLICE)
    assert started.returncode == 0, started.text
    eventually(lambda: len(engine.instances()) == 1, "the container is in the tree")
    directory = engine.instances()[0]
    eventually(lambda: engine.used("0", directory) == 1024 * MIB, "1 GiB is charged")
    joined = runtime.exec(name, ["/cgpu-probe", "info"])
    assert step(joined, "info").number("free") == LIMIT - 1024 * MIB
    runtime.kill(name)
    runtime.remove(name)


def test_asks_for_nothing_of_each_runtime(engine: Engine, runtime: Runtime) -> None:
    """A container that asks for nothing runs as if nothing were installed."""
    outcome = runtime.run(["/cgpu-probe", "--help"], {})
    assert outcome.returncode == 0, outcome.text
    assert engine.instances() == []
