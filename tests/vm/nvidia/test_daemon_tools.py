# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's nvidia-smi on NVIDIA's driver below cgpud: in a container with a slice it shows the slice."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.vm.harness.machine import Machine
from tests.vm.nvidia.daemon import SECONDS, GuestDaemon, begin, end
from tests.vm.nvidia.test_tools import CARD, HELD, LIMIT, MIB, UUID, argv, seen_tools

pytestmark = pytest.mark.real_driver

CONTAINER = "tenant"


@pytest.fixture(scope="module")
def folder(machine: Machine) -> str:
    """Return where the guest finds the tools."""
    return seen_tools(machine)


@pytest.fixture(scope="module")
def daemon(machine: Machine, folder: str) -> Iterator[GuestDaemon]:
    """Return cgpud with one container that holds some of its slice."""
    made = begin(machine)
    made.hold(f"alloc={HELD}M", size=LIMIT * MIB, name=CONTAINER)
    yield made
    made.clear()
    end(made)


def smi(daemon: GuestDaemon, folder: str, *words: str) -> str:
    """Run nvidia-smi in the container; return what it prints."""
    process = daemon.start_program(CONTAINER, *argv(folder, *words))
    process.close_input()
    done = process.wait(daemon.machine.scaled(SECONDS))
    assert done.returncode == 0, done.text
    return done.stdout


@pytest.mark.enforcement
def test_table(daemon: GuestDaemon, folder: str) -> None:
    """The table has the slice in the container, and the card outside."""
    assert re.search(rf" {HELD}MiB / +{LIMIT}MiB ", smi(daemon, folder))
    assert re.search(rf" \d+MiB / +{CARD}MiB ", daemon.machine.run(argv(folder)).stdout)


@pytest.mark.enforcement
def test_query(daemon: GuestDaemon, folder: str) -> None:
    """Memory's size, and what is used and free, are those of the slice, and add up."""
    query = "--query-gpu=name,uuid,memory.total,memory.used,memory.free"
    shown = smi(daemon, folder, query, "--format=csv,noheader,nounits")
    assert shown.strip() == f"Tesla T4, {UUID}, {LIMIT}, {HELD}, {LIMIT - HELD}"


def test_nothing_refused(daemon: GuestDaemon, folder: str) -> None:
    """Nothing that nvidia-smi asks for is refused by the engine."""
    before = daemon.log()
    for words in ((), ("-q",), ("-L",), ("topo", "-m"), ("dmon", "-c", "1"), ("pmon", "-c", "1")):
        smi(daemon, folder, *words)
    said = daemon.log().removeprefix(before).splitlines()
    assert [line for line in said if "listener attached" not in line] == []
