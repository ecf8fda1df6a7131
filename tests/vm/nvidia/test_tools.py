# SPDX-License-Identifier: Apache-2.0
"""NVIDIA's nvidia-smi on NVIDIA's driver, with either engine: in a container it shows the slice."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.nvidia.archive import NotInArchiveError, package, release
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import load_driver, load_engine, real_driver, unload_driver, unload_engine
from tests.vm.harness.process import Finished
from tests.vm.harness.slices import clear, slice_of
from tests.vm.harness.store import STORE
from tests.vm.nvidia import daemon

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
        return machine.seen(tools(version))
    except NotInArchiveError as error:
        pytest.skip(str(error))


@dataclass(frozen=True)
class Tenant:
    """A container with a slice, of which it holds some, and nvidia-smi in it."""

    machine: Machine
    folder: str
    run: Callable[..., Finished]  # a command in the container
    log: Callable[[], str]  # what the engine has logged

    def argv(self, *words: str) -> list[str]:
        return ["/bin/busybox", "env", f"LD_LIBRARY_PATH={self.folder}", f"{self.folder}/nvidia-smi", *words]

    def smi(self, *words: str) -> str:
        return self.run(*self.argv(*words)).check().stdout

    def outside(self, *words: str) -> str:
        return self.machine.run(self.argv(*words)).stdout


@contextmanager
def of_module(machine: Machine, folder: str) -> Iterator[Tenant]:
    load_driver(machine)
    load_engine(machine)
    made = slice_of(machine, "tenant", f"0:{LIMIT * MIB}")
    made.hold(f"alloc={HELD}M")

    def log() -> str:
        return "".join(f"{line}\n" for line in machine.dmesg().splitlines() if "cgpu" in line)

    yield Tenant(machine, folder, made.run, log)
    clear(machine)
    unload_engine(machine)
    unload_driver(machine)


@contextmanager
def of_daemon(machine: Machine, folder: str) -> Iterator[Tenant]:
    running = daemon.begin(machine)
    running.hold(f"alloc={HELD}M", size=LIMIT * MIB, name="tenant")

    def run(*words: str) -> Finished:
        return running.start_program("tenant", *words).finish(machine.scaled(daemon.SECONDS))

    def log() -> str:
        return "".join(f"{line}\n" for line in running.log().splitlines() if "listener attached" not in line)

    yield Tenant(machine, folder, run, log)
    running.clear()
    daemon.end(running)


@pytest.fixture(scope="module", params=[of_module, of_daemon], ids=["cgpu_km", "cgpud"])
def tenant(machine: Machine, request: pytest.FixtureRequest) -> Iterator[Tenant]:
    with request.param(machine, seen_tools(machine)) as made:
        yield made


@pytest.mark.enforcement
def test_table(tenant: Tenant) -> None:
    """The table has the slice in the container, and the card outside."""
    assert re.search(rf" {HELD}MiB / +{LIMIT}MiB ", tenant.smi())
    # Memory that UVM has taken for itself is used there, too.
    used = re.search(rf" (\d+)MiB / +{CARD}MiB ", tenant.outside())
    assert used is not None
    assert HELD <= int(used.group(1)) < HELD + 64


@pytest.mark.enforcement
def test_query(tenant: Tenant) -> None:
    """Sizes of memory, used and free, are those of the slice, and add up."""
    query = "--query-gpu=name,uuid,memory.total,memory.used,memory.free"
    told = tenant.smi(query, "--format=csv,noheader,nounits")
    assert told.strip() == f"Tesla T4, {UUID}, {LIMIT}, {HELD}, {LIMIT - HELD}"


@pytest.mark.enforcement
def test_details(tenant: Tenant) -> None:
    """All details of the card can be asked, and memory is the slice's."""
    text = tenant.smi("-q")
    memory = re.search(r"FB Memory Usage\n((?: {8}\S.*\n)+)", text)
    assert memory is not None, text
    # Up to 570 what the driver itself takes has a line of its own.
    told = dict(re.findall(r"(\w+) +: (\d+) MiB", memory.group(1)))
    assert (told["Total"], told["Used"], told["Free"]) == (str(LIMIT), str(HELD), str(LIMIT - HELD))


def test_nothing_refused(tenant: Tenant) -> None:
    """The engine refuses no call of nvidia-smi."""
    before = tenant.log()
    for words in ((), ("-q",), ("-L",), ("topo", "-m"), ("dmon", "-c", "1"), ("pmon", "-c", "1")):
        tenant.smi(*words)
    assert tenant.log().removeprefix(before) == ""
