# SPDX-License-Identifier: Apache-2.0
"""The node nvidia-uvm: memory that is mapped stays with its mapping, in every version of the calls."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from tests.attacks.build import uvm_probe
from tests.sim.abi import Status, card_facts, facts, raw_ioctl
from tests.sim.conftest import Start
from tests.sim.support import Sim

BAD_ADDRESS, BAD_ARGUMENT, NOT_YOURS = (f"expect=0x{status:x}" for status in (0x1E, 0x1F, 0x1B))
TAKEN = ("alloc=16M", "range=16M", "map", "rm-free")
VERSIONS = ("515.43.04", "530.41.03", "550.40.07", "550.54.14", "580.142", "590.44.01", "595.45.04")


def used(sim: Sim, *words: str) -> list[int]:
    """Run a program whose every word must answer as expected; return what its `used` said, in MiB."""
    command = [str(uvm_probe()), "--dev", str(sim.mount), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("bytes=")]
    return [int(one.removeprefix("bytes=")) >> 20 for one in said]


@pytest.mark.parametrize("version", VERSIONS)
def test_mapping_keeps_memory(start: Start, version: str) -> None:
    """Until it is unmapped, its range is freed, or the file closed."""
    sim = start("T4", version)
    words = [word for end in ("unmap", "uvm-free") for word in (*TAKEN, "used", end, "used")]
    assert used(sim, "uvm", *words, *TAKEN, "used", "uvm-close") == [16, 0] * 2 + [16]
    assert sim.settles(0, 0)


def test_new_mapping_takes_the_place_of_the_old(sim: Sim) -> None:
    """The memory of the old one goes."""
    assert used(sim, "uvm", *TAKEN, "alloc=32M", "map", "rm-free", "used") == [32]
    assert sim.settles(0, 0)


def test_failed_mapping_leaves_nothing(sim: Sim) -> None:
    """Whatever is wrong with it, it holds nothing; but what lay there before is gone."""
    too_long = ("alloc=16M", "range=32M", BAD_ARGUMENT, "map", "rm-free")
    assert used(sim, "uvm", *too_long, "used") == [0]
    twice = (*TAKEN, "expect=0x57", "map", "used", "alloc=8M", BAD_ARGUMENT, "map", "used")
    assert used(sim, "uvm", *twice) == [0, 8]
    assert used(sim, "uvm", "alloc=16M", "range=16M", NOT_YOURS, "fork-map", "rm-free", "used") == [0]
    assert sim.settles(0, 0)


def test_addresses(sim: Sim) -> None:
    """Ranges do not overlap, and calls that name others change nothing."""
    words = (
        *TAKEN,
        BAD_ADDRESS,
        "unmap-far",
        BAD_ADDRESS,
        "free-far",
        "used",
        "uvm-free",
        BAD_ADDRESS,
        "unmap",
    )
    assert used(sim, "uvm", *words, "used") == [16, 0]


def test_memory_for_other_devices(start: Start) -> None:
    """It is held by its own range, from the version on that has the call."""
    words = ("alloc=16M", "p2p=16M", "rm-free", "used", BAD_ADDRESS, "unmap", "uvm-free", "used")
    assert used(start("T4"), "uvm", *words) == [16, 0]
    assert used(start("T4", "550.54.14"), "uvm", "alloc=16M", "expect=0x56", "p2p=16M") == []


def test_files_go_with_the_last_who_has_them(sim: Sim) -> None:
    """Memory stays when its process ends and another one has the file."""
    assert used(sim, "uvm", *TAKEN, "keep=1", "used", "quit") == [16]
    assert sim.used(0) == 16 << 20
    assert sim.settles(0, 0)


def answer(sim: Sim, fd: int, name: str, **values: int) -> int:
    """Make one call of nvidia-uvm and return its status."""
    shape = sim.layout(f"{name}_PARAMS")
    data = shape.pack(**values)
    raw_ioctl(fd, int(facts()["constants"][name]["value"], 0), data)
    return shape.get(data, "rmStatus")


@pytest.fixture
def uvm(sim: Sim) -> Iterator[int]:
    """Return an open nvidia-uvm."""
    fd = sim.open("nvidia-uvm")
    yield fd
    os.close(fd)


def test_initialisation(sim: Sim, uvm: int) -> None:
    """Flags that there are not are refused, and until it is initialised a file answers nothing else."""
    assert answer(sim, uvm, "UVM_INITIALIZE", flags=4) == 0x1F
    assert answer(sim, uvm, "UVM_ALLOC_SEMAPHORE_POOL", base=1 << 21, length=1 << 21) == 0x16
    assert answer(sim, uvm, "UVM_INITIALIZE", flags=1) == 0
    assert answer(sim, uvm, "UVM_INITIALIZE", flags=2) == 0x1F
    assert answer(sim, uvm, "UVM_ALLOC_SEMAPHORE_POOL", base=1 << 21, length=1 << 21) == 0
    assert answer(sim, uvm, "UVM_ALLOC_SEMAPHORE_POOL", base=1 << 21, length=5) == 0x1E


def test_range_groups(sim: Sim, uvm: int) -> None:
    """A group has a number of its own until it is destroyed, and no other group can be named."""
    shape = sim.layout("UVM_CREATE_RANGE_GROUP_PARAMS")
    assert answer(sim, uvm, "UVM_INITIALIZE", flags=0) == 0
    numbers = []
    for _ in range(2):
        data = shape.pack()
        raw_ioctl(uvm, int(card_facts()["constants"]["UVM_CREATE_RANGE_GROUP"]["value"], 0), data)
        numbers.append(shape.get(data, "rangeGroupId"))
    assert len(set(numbers)) == 2
    for expected in (Status.OK, Status.NOT_FOUND):
        data = sim.layout("UVM_DESTROY_RANGE_GROUP_PARAMS").pack(rangeGroupId=numbers[0])
        raw_ioctl(uvm, int(card_facts()["constants"]["UVM_DESTROY_RANGE_GROUP"]["value"], 0), data)
        assert sim.layout("UVM_DESTROY_RANGE_GROUP_PARAMS").get(data, "rmStatus") == expected


def test_semaphore_pools(sim: Sim, uvm: int) -> None:
    """A pool is a range: it is valid as a whole, nothing overlaps it, and it goes like another range."""
    assert answer(sim, uvm, "UVM_INITIALIZE", flags=0) == 0
    assert answer(sim, uvm, "UVM_ALLOC_SEMAPHORE_POOL", base=1 << 21, length=1 << 21) == 0
    assert answer(sim, uvm, "UVM_VALIDATE_VA_RANGE", base=1 << 21, length=1 << 21) == 0
    assert answer(sim, uvm, "UVM_VALIDATE_VA_RANGE", base=1 << 21, length=1 << 12) == Status.INVALID_ADDRESS
    assert answer(sim, uvm, "UVM_CREATE_EXTERNAL_RANGE", base=1 << 21, length=1 << 12) != 0
    assert answer(sim, uvm, "UVM_FREE", base=1 << 21, length=1 << 21) == 0
    assert answer(sim, uvm, "UVM_CREATE_EXTERNAL_RANGE", base=1 << 21, length=1 << 12) == 0
