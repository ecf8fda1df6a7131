# SPDX-License-Identifier: Apache-2.0
"""A tree of plain files, as an engine with two cards and three containers shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cgpu.smi import names
from tests.exporter.trees import gpu_line, slice_line
from tests.policies import text

MIB = 1 << 20
TRAINER = "0123456789ab" + "c" * 52
SCHED = "divided_by=time_slices usage_from=gates resolution=50000 slice=2000000 later=1"
NodeValue = int | str


@pytest.fixture(autouse=True)
def usual_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables have the width of no terminal, also where the tests run in one."""
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(autouse=True)
def engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one engine answer that knows the trainer."""
    monkeypatch.setattr(names, "sources", lambda **_: [lambda: {TRAINER: "trainer"}])


def write(directory: Path, nodes: dict[str, NodeValue]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, value in nodes.items():
        (directory / name).write_text(f"{value}\n")


def add_gpu(tree: Path, index: int, *slices: str, sched: str, **figures: int) -> Path:
    uuid = f"GPU-0000000{index}-1111-2222-3333-444444444444"
    stat = "\n".join((gpu_line(uuid, promised=12086 * MIB * bool(slices), **figures), *slices))
    write(tree / str(index), {"minor": index, "name": "Tesla T4", "sched": sched, "left": "", "stat": stat})
    return tree / str(index)


def add_container(gpu: Path, name: str, owner: str, *pids: int) -> Path:
    """Write a container's directory; each process holds 512 MiB."""
    lines = [f"Free: {(6043 - 512 * len(pids)) * MIB}", *(f"PID: {pid} Mem: {512 * MIB}" for pid in pids)]
    write(gpu / name, {"meminfo": "\n".join(lines), "owner": f"{owner} /sys/fs/cgroup/{owner}"})
    return gpu / name


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """
    Return a tree: two containers on the first card, one of them idle, nothing on the second.

    The engine divides the time of the first card, and measures it.
    """
    root = tmp_path / "cgpu_km"
    write(
        root,
        {"version": "0.1.0", "engine": "cgpud 0.1.0", "default_memsize": 0, "policies": text().rstrip("\n")},
    )
    figures = {"memsize": 6043 * MIB, "throttled": 3_000_000}
    known = {"used": 1024 * MIB, "peak": 2048 * MIB, "refused_limit": 3, "refused_call": 4}
    slices = (slice_line(TRAINER, **figures, **known), slice_line("web", **figures))
    gpu = add_gpu(root, 0, *slices, sched=SCHED, memfree=13000 * MIB, used=1024 * MIB, policy=1)
    add_gpu(root, 1, sched="divided_by=driver usage_from=none resolution=0 slice=2000000", places=0)
    add_container(gpu, TRAINER[:12], TRAINER, 4711, 4712)
    add_container(gpu, "web", "web")
    return root
