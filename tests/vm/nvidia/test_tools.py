# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's nvidia-smi on NVIDIA's driver: in a container with a slice it shows the slice."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nvidia.archive import NotInArchiveError, package, release
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import load_driver, load_engine, real_driver, unload_driver, unload_engine
from tests.vm.harness.process import Finished
from tests.vm.harness.slices import Slice, await_empty, slice_of
from tests.vm.harness.store import STORE

pytestmark = pytest.mark.real_driver

MIB = 1 << 20
LIMIT, HELD, CARD = 1024, 300, 15109  # MiB
UUID = "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f"  # as the fake GSP answers
LIBRARY = Path("usr/lib/x86_64-linux-gnu/nvidia/current")


def tools(version: str) -> Path:
    """Return a folder with nvidia-smi and its library, of the driver's own version."""
    named = release(version)
    folder = STORE / f"nvidia-tools-{named.version}"
    if not folder.exists():
        part = folder.with_name(f".{folder.name}")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        shutil.copy(package("nvidia-smi", named.debian) / "usr/lib/nvidia/current/nvidia-smi", part)
        library = package("libnvidia-ml1", named.debian) / LIBRARY / f"libnvidia-ml.so.{named.version}"
        shutil.copy(library, part / "libnvidia-ml.so.1")
        part.rename(folder)
    return folder


def seen_tools(machine: Machine) -> str:
    """Return where a machine finds the tools of its driver. Skips the test where they cannot be had.

    A mirror may have the driver's source, in contrib, and not these, in non-free: the rest is tested then.
    """
    version = real_driver()
    assert version is not None
    try:
        return machine.seen(tools(version.version))
    except NotInArchiveError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def folder(machine: Machine) -> Iterator[str]:
    """Have driver and engine; return where the guest finds the tools."""
    found = seen_tools(machine)
    load_driver(machine)
    load_engine(machine)
    yield found
    unload_engine(machine)
    unload_driver(machine)


@pytest.fixture
def tenant(machine: Machine, folder: str) -> Iterator[Slice]:
    """Return a container with a slice that holds some of it."""
    made = slice_of(machine, "tenant", f"0:{LIMIT * MIB}")
    holder = made.hold(f"alloc={HELD}M")
    yield made
    holder.stop()
    made.end()
    await_empty(machine)


def argv(folder: str, *words: str) -> list[str]:
    """Return nvidia-smi's command line."""
    return ["/bin/busybox", "env", f"LD_LIBRARY_PATH={folder}", f"{folder}/nvidia-smi", *words]


def smi(tenant: Slice, folder: str, *words: str) -> str:
    """Run nvidia-smi in the container; return what it prints."""
    done = tenant.run(*argv(folder, *words))
    assert done.returncode == 0, done.text
    return done.stdout


def outside(machine: Machine, folder: str, *words: str) -> Finished:
    """Run nvidia-smi on the node."""
    return machine.run(argv(folder, *words))


@pytest.mark.enforcement
def test_table(machine: Machine, tenant: Slice, folder: str) -> None:
    """The table has the slice in the container, and the card outside."""
    assert re.search(rf" {HELD}MiB / +{LIMIT}MiB ", smi(tenant, folder))
    # What UVM has taken for itself is used there, too.
    used = re.search(rf" (\d+)MiB / +{CARD}MiB ", outside(machine, folder).stdout)
    assert used is not None
    assert HELD <= int(used.group(1)) < HELD + 64


@pytest.mark.enforcement
def test_query(tenant: Slice, folder: str) -> None:
    """Memory's size, and what is used and free, are those of the slice, and add up."""
    query = "--query-gpu=name,uuid,memory.total,memory.used,memory.free"
    told = smi(tenant, folder, query, "--format=csv,noheader,nounits")
    assert told.strip() == f"Tesla T4, {UUID}, {LIMIT}, {HELD}, {LIMIT - HELD}"


def test_list(tenant: Slice, folder: str) -> None:
    """The card has the name and the UUID that it has without a slice."""
    assert smi(tenant, folder, "-L") == f"GPU 0: Tesla T4 (UUID: {UUID})\n"


@pytest.mark.enforcement
def test_details(tenant: Slice, folder: str) -> None:
    """All that it knows of the card can be asked, and memory is the slice's."""
    text = smi(tenant, folder, "-q")
    memory = re.search(r"FB Memory Usage\n((?: {8}\S.*\n)+)", text)
    assert memory is not None, text
    # Up to 570 what the driver itself takes has a line of its own.
    told = dict(re.findall(r"(\w+) +: (\d+) MiB", memory.group(1)))
    assert (told["Total"], told["Used"], told["Free"]) == (str(LIMIT), str(HELD), str(LIMIT - HELD))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("topo", "-m"), "GPU0\t X "),
        (("dmon", "-c", "1"), "# gpu"),
        (("pmon", "-c", "1"), "# gpu"),
        (("--query-compute-apps=pid,used_memory", "--format=csv"), "pid, used_gpu_memory [MiB]"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_others(tenant: Slice, folder: str, words: tuple[str, ...], expected: str) -> None:
    """The other commands run in a slice as they do without one."""
    assert expected in smi(tenant, folder, *words)


def test_nothing_refused(machine: Machine, tenant: Slice, folder: str) -> None:
    """Nothing that nvidia-smi asks for is refused by the engine."""
    before = len(machine.dmesg().splitlines())
    for words in ((), ("-q",), ("topo", "-m")):
        smi(tenant, folder, *words)
    said = [line for line in machine.dmesg().splitlines()[before:] if "cgpu" in line]
    assert said == []
