# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's libcuda of Debian's packages in a slice of a simulated card: devices, allocations and copies."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.engine import RUN
from tests.nvidia.containers import Node
from tests.nvidia.machines import LIMIT, VERSIONS, machine, run
from tests.nvidia.software import PACKAGES, software

pytestmark = pytest.mark.root

PROGRAM = Path(__file__).parent / "cuda_program.py"
# Folders of the program, to be had in containers.
FOLDERS = [PROGRAM.parent, PROGRAM.parents[1] / "gpu" / "programs"]
CUDA = (*PACKAGES, "libcuda1")
MIB = 1 << 20
Found = dict[str, dict[str, object]]


def needs() -> None:
    """Fetch libcuda of each release. Raises NotInArchiveError."""
    for version in VERSIONS:
        software(version, CUDA)


def read(text: str) -> Found:
    found: Found = json.loads(text.splitlines()[-1])
    return found


@pytest.fixture(scope="module", params=VERSIONS)
def box(request: pytest.FixtureRequest) -> Iterator[Node]:
    """Return a machine of each release in turn, with the program in its containers."""
    software(request.param, CUDA)
    with machine(request.param, more=FOLDERS) as made:
        yield made


def sliced(box: Node, step: str) -> dict[str, object]:
    return read(run(box.sliced, f"python3 {PROGRAM} {step}"))[step]


def counts_once(found: dict[str, object]) -> bool:
    """Return whether memory that two processes have was taken once, and the second context beside it."""
    before, after, other = (int(str(found[name])) for name in ("before", "after", "free"))
    return before - after == 512 * MIB and after - 256 * MIB < other < after


def number(found: dict[str, object], name: str) -> int:
    return int(str(found[name]))


def is_all(found: dict[str, object], step: int) -> bool:
    """Return whether all memory that there was could be had, in pieces of so many MiB, and no more."""
    return number(found, "before") - 2 * step * MIB < number(found, "filled") <= number(found, "before")


@pytest.mark.enforcement
def test_slice(box: Node) -> None:
    """In a slice the card has as much memory as the slice, under its own name and UUID."""
    found = sliced(box, "describe")
    assert found["total"] == LIMIT * MIB
    assert found["name"] == "Tesla T4"
    assert str(found["uuid"]) in box.engine.read("0/uuid").replace("-", "")


@pytest.mark.enforcement
def test_slice_fill(box: Node) -> None:
    """In a slice memory ends with the slice: CUDA_ERROR_OUT_OF_MEMORY; cuMemGetInfo has it so too."""
    found = sliced(box, "fill")
    filled, before, left = (number(found, name) for name in ("filled", "before", "left"))
    assert found["total"] == LIMIT * MIB
    assert before < LIMIT * MIB
    assert before - 4 * MIB <= filled <= before
    assert found["more"] == 0
    assert left < 4 * MIB
    assert found["again"] == 64 * MIB


@pytest.mark.enforcement
@pytest.mark.parametrize(("step", "piece"), [("virtual", 2), ("pool", 32), ("managed", 32)])
def test_slice_by_other_ways(box: Node, step: str, piece: int) -> None:
    """cuMemCreate, a pool and managed memory end with the slice; shared memory counts once."""
    found = sliced(box, step)
    assert found["read"] == "0123456789abcdef"
    assert number(found, "before") < LIMIT * MIB
    assert found.get("taken") == (64 * MIB if step == "virtual" else None)
    assert is_all(found, piece)


def test_slice_ipc(box: Node) -> None:
    """In a slice memory that two of its processes have is charged once."""
    found = sliced(box, "ipc")
    assert found["read"] == "0123456789abcdef"
    assert counts_once(found)


def test_slice_work(box: Node) -> None:
    """In a slice copies and streams are as without one, and the engine refuses nothing of libcuda's."""
    log = RUN / "cgpud.log"
    before, earlier = box.engine.status()["engine"], len(log.read_text())
    small = (b"a few bytes." + b"\x07" * 5 + b"\x11").hex()
    assert sliced(box, "copies") == {"large": True, "small": small, "set": True}
    assert sliced(box, "streams") == {"copied": True}
    after = box.engine.status()["engine"]
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert after["refused"] == before["refused"]
    assert after["supervised"] > before["supervised"]
    said = log.read_text()[earlier:]
    assert [line for line in said.splitlines() if "refused" in line or "unknown" in line] == []
