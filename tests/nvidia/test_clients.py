# SPDX-License-Identifier: Apache-2.0
"""Others' clients of NVML in a slice of a simulated card: nvidia-ml-py, nvitop, gpustat and nvtop."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.nvidia import pypi
from tests.nvidia.archive import package
from tests.nvidia.containers import Node
from tests.nvidia.machines import BY_PROCESS, LIMIT, OWN, beside, box, packages, run
from tests.nvidia.programs import ML, SCREEN

__all__ = ["box"]

pytestmark = pytest.mark.root
MIB = 1 << 20
NVTOP = ("nvtop", "3.0.1-1")
PYTHON = "/usr/bin/python3"


def needs() -> None:
    packages()
    pypi.clients()
    package(*NVTOP)


def python(box: Node, words: str) -> str:
    return run(box.sliced, beside(f"PYTHONPATH={pypi.clients()} {PYTHON} {words}"))


@pytest.mark.enforcement
def test_nvidia_ml_py(box: Node) -> None:
    """NVIDIA's own binding has the slice's memory in both its forms, the process, and the engine's UUID."""
    answer = json.loads(python(box, f"-c {shlex.quote(ML)}"))
    sizes = [LIMIT * MIB, OWN * MIB, (LIMIT - OWN) * MIB]
    assert answer["memory"] == sizes
    assert answer["memory_v2"] == [*sizes, 0]
    assert [used for _, used in answer["processes"]] == [BY_PROCESS * MIB]
    assert answer["uuid"] == box.engine.read("0/uuid").strip()
    assert (answer["driver"], answer["count"]) == (box.cards.software.release.version, 1)


@pytest.mark.enforcement
def test_nvitop(box: Node) -> None:
    """nvitop's screen has the slice's memory, and the process."""
    screen = python(box, "-m nvitop --once --ascii")
    assert f"{OWN}.0MiB / {LIMIT}MiB" in screen
    assert re.search(r"\d+ +C +[a-z0-9]+ ", screen)


@pytest.mark.enforcement
def test_gpustat(box: Node) -> None:
    """gpustat's line has the slice's memory, and the process."""
    (card,) = json.loads(python(box, "-m gpustat --json"))["gpus"]
    assert (card["memory.total"], card["memory.used"]) == (LIMIT, OWN)
    assert [process["gpu_memory_usage"] or 0 for process in card["processes"]] == [BY_PROCESS]


@pytest.mark.enforcement
def test_nvtop(box: Node) -> None:
    """nvtop's screen has the slice's memory in GiB, and the process."""
    program = package(*NVTOP) / "usr" / "bin" / "nvtop"
    screen = run(box.sliced, beside(f"{PYTHON} -c {shlex.quote(SCREEN)} {Path(program)} -d 5"))
    assert f"[{OWN / 1024:.3f}Gi/{LIMIT / 1024:.3f}Gi]" in screen.replace("[ ", "[")
    assert re.search(r" Compute .*/cgpu-probe", screen)
