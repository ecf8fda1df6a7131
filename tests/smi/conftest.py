# SPDX-License-Identifier: Apache-2.0
"""A tree of plain files, as an engine with two cards and three containers shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cgpu.slice import ATTRIBUTES
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
    monkeypatch.setattr(names, "sources", lambda: [lambda: {TRAINER: "trainer"}])


def write(directory: Path, nodes: dict[str, NodeValue]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, value in nodes.items():
        (directory / name).write_text(f"{value}\n")


def add_gpu(tree: Path, index: int, **changed: NodeValue) -> Path:
    nodes: dict[str, NodeValue] = {
        "free_weight": 18,
        "major": 0,
        "max_inst": 20,
        "memfree": 15109 * MIB,
        "memtotal": 15109 * MIB,
        "minor": index,
        "name": "Tesla T4",
        "policy": 1,
        "prio_ratio": 80,
        "uuid": f"GPU-0000000{index}-1111-2222-3333-444444444444",
    }
    write(tree / str(index), nodes | changed)
    return tree / str(index)


def add_container(gpu: Path, name: str, owner: str, *pids: int, **changed: NodeValue) -> Path:
    """Write a container's directory; each process holds 512 MiB of its 6043 MiB."""
    lines = [f"Free: {(6043 - 512 * len(pids)) * MIB}", *(f"PID: {pid} Mem: {512 * MIB}" for pid in pids)]
    nodes: dict[str, NodeValue] = {
        **{one.name: one.default or 0 for one in ATTRIBUTES},
        "id": 0,
        "meminfo": "\n".join(lines),
        "memsize": 6043 * MIB,
        "owner": f"{owner} /sys/fs/cgroup/{owner}",
        "usage": 0,
    }
    write(gpu / name, nodes | changed)
    return gpu / name


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """
    Return a tree: two containers on the first card, one of them idle, nothing on the second.

    The engine says of the first card how it divides its time, and has counters of it.
    """
    root = tmp_path / "cgpu_km"
    write(
        root,
        {"version": "0.1.0", "engine": "cgpud 0.1.0", "default_memsize": 0, "policies": text().rstrip("\n")},
    )
    known = {"used": 1024 * MIB, "peak": 2048 * MIB, "refused_limit": 3, "refused_call": 4}
    stat = (
        gpu_line("GPU-0", memfree=13000 * MIB, promised=12086 * MIB, used=1024 * MIB, policy=1),
        slice_line(TRAINER, memsize=6043 * MIB, throttled=3_000_000, **known),
        slice_line("web", memsize=6043 * MIB, throttled=3_000_000),
    )
    gpu = add_gpu(root, 0, sched=SCHED, stat="\n".join(stat))
    add_gpu(root, 1, policy=2)
    add_container(gpu, TRAINER[:12], TRAINER, 4711, 4712)
    add_container(gpu, "web", "web")
    return root
