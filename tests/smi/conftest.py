# SPDX-License-Identifier: Apache-2.0
"""A tree of plain files, as an engine with two cards and three containers shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

MIB = 1 << 20
TRAINER = "0123456789ab" + "c" * 52
SCHED = "divided_by=time_slices usage_from=gates resolution=50000 slice=2000000 later=1"
NodeValue = int | str
REFUSED = ("limit", "card", "unaccounted", "class", "control", "client", "records", "call")


@pytest.fixture(autouse=True)
def usual_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables have the width of no terminal, whatever the one is in which the tests run."""
    monkeypatch.setenv("COLUMNS", "80")


def stat_of_slice(owner: str, **changed: NodeValue) -> str:
    """Return a container's line of the entry `stat`."""
    words: dict[str, NodeValue] = {
        "memsize": 6043 * MIB,
        "used": 1024 * MIB,
        "peak": 2048 * MIB,
        "weight": 1,
        "highprio": 0,
        "usage": 0,
        "throttled": 3_000_000,
        **{f"refused_{reason}": 0 for reason in REFUSED},
    }
    return " ".join([f"id={owner}", *(f"{key}={value}" for key, value in (words | changed).items())])


def stat_of_gpu(*slices: str, **changed: NodeValue) -> str:
    """Return the entry `stat` of a GPU."""
    words: dict[str, NodeValue] = {
        "drift": 0,
        "memtotal": 15109 * MIB,
        "memfree": 13000 * MIB,
        "promised": 12086 * MIB,
        "used": 1024 * MIB,
        "orphaned": 0,
        "policy": 1,
        "prio_ratio": 80,
        "max_inst": 20,
        "places": 2,
        "weights": 2,
        "mig": 0,
        "natives": 0,
        "drift_lasting": 0,
        "undivided": 0,
        "usage": 0,
        "lost": 0,
        **{f"refused_{reason}": 0 for reason in REFUSED[:3]},
    }
    line = " ".join(["uuid=GPU-0", *(f"{key}={value}" for key, value in (words | changed).items())])
    return "\n".join([line, *slices])


def write(directory: Path, nodes: dict[str, NodeValue]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name, value in nodes.items():
        (directory / name).write_text(f"{value}\n")


def add_gpu(tree: Path, index: int, **changed: NodeValue) -> Path:
    """Write the directory of a simulated T4."""
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
        "highprio": 0,
        "id": 0,
        "meminfo": "\n".join(lines),
        "memsize": 6043 * MIB,
        "owner": f"{owner} /sys/fs/cgroup/{owner}",
        "usage": 0,
        "weight": 1,
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
    write(root, {"version": "0.1.0", "engine": "cgpud 0.1.0", "default_memsize": 0})
    slices = (stat_of_slice(TRAINER, refused_limit=3, refused_call=4), stat_of_slice("web", used=0, peak=0))
    gpu = add_gpu(root, 0, sched=SCHED, stat=stat_of_gpu(*slices))
    add_gpu(root, 1, policy=2)
    add_container(gpu, TRAINER[:12], TRAINER, 4711, 4712)
    add_container(gpu, "web", "web")
    return root
