# SPDX-License-Identifier: Apache-2.0
"""Traces of NVIDIA's own clients (real library, simulated card) through the engine's core.

tests/nvidia/record.py made them, with nvidia-smi, libcuda and nvidia-ml-py of Debian's and PyPI's packages.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from cgpu.trace.format import Trace, load
from cgpu.trace.replay import replay
from tests.sim.abi import facts
from tests.trace.support import MIB, calls

FILES = sorted((Path(__file__).parent / "real_library").glob("*.jsonl.gz"))
ORIGIN = "real library, simulated card"
VERSIONS = ("535.261.03", "550.163.01")
PROGRAMS = ("cuda-copies", "cuda-describe", "cuda-managed", "nvidia-ml-py", "nvidia-smi", "nvidia-smi-q")
# The core answers this one by itself: how long a container's channels run is its affair.
OWN = facts()["controls"]["NVA06C_CTRL_CMD_SET_TIMESLICE"]["cmd"]

pytestmark = pytest.mark.root


def recorded(file: Path, folder: Path) -> Trace:
    plain = folder / file.stem
    plain.write_bytes(gzip.decompress(file.read_bytes()))
    return load(plain)


def test_all_there() -> None:
    """There is one of each program for each release."""
    expected = sorted(f"{program}-{version}.jsonl.gz" for program in PROGRAMS for version in VERSIONS)
    assert [file.name for file in FILES] == expected


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.removesuffix(".jsonl.gz"))
@pytest.mark.parametrize("size", [0, 512 * MIB], ids=["whole card", "slice"])
def test_passes(tools: Path, tmp_path: Path, file: Path, size: int) -> None:
    """The core lets all through but its own, in a slice too, and each replayed is answered as recorded."""
    assert (tools / "libcgpu-replay.so").exists()
    trace = recorded(file, tmp_path)
    assert trace.header.notes == {"origin": ORIGIN}
    assert f"-{trace.header.driver}.jsonl" in file.name
    assert calls(trace, "NV_ESC_CARD_INFO")
    outcome = replay(trace, "T4", size)
    kept = [answer.event for answer in outcome.answers if not answer.through]
    assert [event for event in kept if event.given.get("cmd") != OWN] == []
    assert outcome.differences == ()
    assert all(balance.taken == balance.charged == 0 for balance in outcome.closed)
