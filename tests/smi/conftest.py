# SPDX-License-Identifier: Apache-2.0
"""A tree of plain files, as an engine with two cards and three containers shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from cgpu.smi import names
from tests.exporter.trees import FakeTree, gpu_line, slice_line

MIB = 1 << 20
TRAINER = "0123456789ab" + "c" * 52
SCHED = "divided_by=time_slices usage_from=gates resolution=50000 slice=2000000 later=1"
UUID = "GPU-0000000{}-1111-2222-3333-444444444444"


@pytest.fixture(autouse=True)
def usual_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables have the width of no terminal, also where the tests run in one."""
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture(autouse=True)
def engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one engine answer that knows the trainer."""
    monkeypatch.setattr(names, "sources", lambda **_: [lambda: {TRAINER: "trainer"}])


def add_container(gpu: Path, name: str, owner: str, *pids: int) -> None:
    """Write a container's directory; each process holds 512 MiB."""
    lines = [f"Free: {(6043 - 512 * len(pids)) * MIB}", *(f"PID: {pid} Mem: {512 * MIB}" for pid in pids)]
    (gpu / name).mkdir()
    (gpu / name / "meminfo").write_text("\n".join([*lines, ""]))
    (gpu / name / "owner").write_text(f"{owner} /sys/fs/cgroup/{owner}\n")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """
    Return a tree: two containers on the first card, one of them idle, nothing on the second.

    The engine divides the time of the first card, and measures it.
    """
    made = FakeTree(tmp_path / "cgpu_km")
    (made.path / "default_memsize").write_text("0\n")
    figures = {"memsize": 6043 * MIB, "throttled": 3_000_000}
    known = {"used": 1024 * MIB, "peak": 2048 * MIB, "refused_limit": 3, "refused_call": 4}
    slices = (slice_line(TRAINER, **figures, **known), slice_line("web", **figures))
    of_card = gpu_line(UUID.format(0), promised=12086 * MIB, memfree=13000 * MIB, used=1024 * MIB, policy=1)
    gpu = made.gpu(0, of_card, *slices, sched=SCHED)
    made.gpu(1, gpu_line(UUID.format(1), promised=0, places=0))
    add_container(gpu, TRAINER[:12], TRAINER, 4711, 4712)
    add_container(gpu, "web", "web")
    return made.path
