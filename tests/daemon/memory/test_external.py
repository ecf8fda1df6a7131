# SPDX-License-Identifier: Apache-2.0
"""What UVM maps is charged until it is unmapped, freed, or its process has ended, with its handle or not."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.attacks.build import uvm_client, uvm_probe
from tests.daemon.conftest import MakeDaemon
from tests.daemon.harness import MIB, Daemon, Sliced, serve_cards, serving
from tests.integration.commands import eventually

LIMIT = 1000 * MIB
SLICE = f"gpu=0:{LIMIT}"
NO_MEMORY = "expect=0x51"
MAPPED = ("alloc=600M", "range=600M", "map", "rm-free")


def run(daemon: Daemon, *words: str, gpus: str = SLICE) -> str:
    """Run the probe to its end in a slice; every word must answer as it is expected to."""
    return daemon.slice(1, gpus, *words, program=uvm_probe()).succeeds()


@pytest.fixture
def first(daemon: Daemon) -> Iterator[Sliced]:
    """Return the first process of a slice, which does nothing."""
    process = daemon.slice(2, SLICE, "hold", until="hold")
    yield process
    process.finish()


def start(daemon: Daemon, first: Sliced, *words: str) -> Sliced:
    """Start the probe there."""
    return daemon.join(first, str(uvm_probe()), "--dev", str(daemon.run / "sim"), *words)


@pytest.fixture
def holding(daemon: Daemon, first: Sliced) -> Iterator[Callable[..., Sliced]]:
    """Return what starts the probe there, which says what the card has given, and waits for a line."""
    held: list[Sliced] = []

    def begin(*words: str, then: tuple[str, ...] = ()) -> Sliced:
        held.append(start(daemon, first, *words, "used", "wait", *then))
        held[-1].line("bytes=")
        return held[-1]

    yield begin
    for sliced in held:
        sliced.process.kill()
        sliced.finish()


@pytest.mark.enforcement
def test_mapped_beside_an_unmapping(daemon: Daemon) -> None:
    """Mapping what another thread unmaps gains nothing: the charge goes only with what is gone."""
    limit = 200 * MIB
    sliced = daemon.slice(1, f"gpu=0:{limit}", "uvm", "map-beside=60", "used", "wait", program=uvm_probe())
    sliced.line("bytes=")
    assert daemon.given() <= daemon.used(sliced) <= limit
    sliced.process.kill()
    sliced.finish()
    eventually(lambda: daemon.given() == 0, "the card has everything back")


def test_file_of_another_user(daemon: Daemon, first: Sliced) -> None:
    """A file that a process without root's rights has closed is noticed as any other."""
    program = Path(tempfile.mkdtemp()) / "uvm-probe"
    shutil.copy(uvm_probe(), program)
    for path in (program, program.parent, *daemon.run.parents, daemon.run):
        path.chmod(path.stat().st_mode | 0o055)
    user = ("/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    words = ("uvm", *MAPPED, "uvm-close", "used", "wait")
    sliced = daemon.join(first, *user, str(program), "--dev", str(daemon.run / "sim"), *words)
    sliced.line("bytes=")
    eventually(lambda: daemon.used(first) == 0, "the charge of the closed file has ended")
    sliced.process.kill()
    sliced.finish()
    shutil.rmtree(program.parent)


def copies(daemon: Daemon) -> int:
    """Return how many of the files of nvidia-uvm the daemon has."""
    count = 0
    for fd in Path(f"/proc/{daemon.pid()}/fd").iterdir():
        with suppress(FileNotFoundError):
            count += os.readlink(fd).endswith("/nvidia-uvm")
    return count


def gone(daemon: Daemon, sliced: Sliced) -> None:
    """Wait until nothing is charged, given or kept open any more."""
    eventually(lambda: daemon.used(sliced) == 0 and daemon.given() == 0, "something is left")
    eventually(lambda: copies(daemon) == 0, "a file is kept open")


@pytest.mark.enforcement
def test_mapping_keeps_the_charge(daemon: Daemon, holding: Callable[..., Sliced]) -> None:
    """Mapped memory cannot be had twice by freeing its handle; neither by its process nor by another one."""
    sliced = holding("uvm", *MAPPED, NO_MEMORY, "alloc=402M", "alloc=400M")
    assert (daemon.used(sliced), daemon.given()) == (LIMIT, LIMIT)
    assert "status=0x51" in daemon.enter(sliced, NO_MEMORY, "alloc=64K:64k").finish()


@pytest.mark.parametrize("end", ["uvm-free", "unmap"])
def test_charge_ends_with_the_mapping(daemon: Daemon, end: str) -> None:
    """Whichever call ends it, the memory can be had again at once, as often as one likes."""
    words = [*MAPPED, end] * 5
    run(daemon, "uvm", *words, "alloc=1000M")
    eventually(lambda: copies(daemon) == 0, "it has the copies it should have")
    run(daemon, "uvm", "alloc=1000M", "range=1000M", "map", end, "rm-free", "alloc=1000M")
    run(daemon, "uvm", "alloc=1000M", "range=1000M", "map", end, NO_MEMORY, "alloc=2M")


@pytest.mark.enforcement
def test_memory_for_other_devices(daemon: Daemon) -> None:
    """It is held by its range."""
    taken = ("alloc=600M", "p2p=600M", "rm-free")
    run(daemon, "uvm", *taken, NO_MEMORY, "alloc=402M", "uvm-free", *taken, "uvm-free", "alloc=1000M")


@pytest.mark.enforcement
@pytest.mark.parametrize("call", ["unmap-far", "free-far"])
def test_call_that_fails_ends_nothing(daemon: Daemon, call: str) -> None:
    """Addresses that are not there: the mapping stays, and its charge."""
    run(daemon, "uvm", *MAPPED, "expect=0x1e", call, NO_MEMORY, "alloc=402M")


def test_file_that_is_closed(daemon: Daemon) -> None:
    """What was mapped on it can be had again, though a child has the file too."""
    run(daemon, "uvm", *MAPPED, "uvm-close", "alloc=1000M")
    run(daemon, "uvm", *MAPPED, "keep=3", "uvm-close", "alloc=1000M")


@pytest.mark.enforcement
def test_process_that_ends(daemon: Daemon, holding: Callable[..., Sliced]) -> None:
    """With it goes what it has mapped, also when a child has its files."""
    sliced = holding("uvm", *MAPPED)
    eventually(lambda: copies(daemon) == 1, "it has the copies it should have")
    assert "status=0x51" in daemon.enter(sliced, NO_MEMORY, "alloc=402M").finish()
    helper = start(daemon, sliced, "uvm", "alloc=400M", "range=400M", "map", "keep=5", "used", "quit")
    helper.line("bytes=")
    helper.process.wait()
    eventually(
        lambda: (daemon.used(sliced), daemon.given()) == (600 * MIB, 600 * MIB), "it was not given back"
    )
    sliced.kill()
    gone(daemon, sliced)


def test_process_without_its_first_thread(daemon: Daemon, first: Sliced) -> None:
    """It still has what it has mapped, though the thread that mapped has ended, too."""
    program = str(uvm_client("first_thread"))
    sliced = daemon.join(first, program, "--dev", str(daemon.run / "sim"), str(600 * MIB))
    sliced.line("alone")
    time.sleep(2.5)
    assert (daemon.used(first), daemon.given()) == (600 * MIB, 600 * MIB)
    sliced.kill()
    gone(daemon, first)


def test_child_that_maps(daemon: Daemon, holding: Callable[..., Sliced]) -> None:
    """The driver refuses it the memory of its parent; with its end nothing of the parent's goes."""
    refused = ("alloc=64M", "range=64M", "expect=0x1b", "fork-map", "uvm-free", "rm-free")
    sliced = holding("uvm", *MAPPED, *refused)
    time.sleep(1.5)
    assert (daemon.used(sliced), daemon.given()) == (600 * MIB, 600 * MIB)


def test_charges_survive_a_new_engine(daemon: Daemon, holding: Callable[..., Sliced]) -> None:
    """The next engine has them in its ledger, and sees what ends them."""
    sliced = holding("uvm", *MAPPED, then=("uvm-free", *MAPPED, "used", "wait"))
    daemon.crash()
    time.sleep(1.5)
    assert (daemon.used(sliced), daemon.given()) == (600 * MIB, 600 * MIB)
    sliced.go_on()
    sliced.line("bytes=")
    assert (daemon.used(sliced), daemon.given()) == (600 * MIB, 600 * MIB)
    sliced.kill()
    gone(daemon, sliced)


def test_process_that_ends_while_there_is_no_engine(daemon: Daemon, holding: Callable[..., Sliced]) -> None:
    """The next engine gives back what it had."""
    sliced = holding("uvm", *MAPPED)
    daemon.crash(sliced.process.kill)
    gone(daemon, sliced)


@pytest.mark.enforcement
def test_sharing_mode_is_refused(daemon: Daemon) -> None:
    """Managed memory would outlive its process there; the other modes are the driver's affair."""
    run(daemon, "initialize=0", "initialize=1", "expect=0x56", "initialize=2", "expect=0x56", "initialize=3")


class NewerDriver(Daemon):
    """A daemon whose cards have a driver that frees ranges by their start alone."""

    def start(self) -> None:
        """Start the cards, then the daemon."""
        serve_cards(self.run, "T4", "595.45.04").returncode = 0  # its end is not ours to wait for
        super().start()


@pytest.fixture(scope="module")
def newer() -> Iterator[Daemon]:
    """One for all tests of such a driver."""
    with serving(NewerDriver, "T4") as running:
        yield running


def pieces(size: int, *offsets: int) -> list[str]:
    """Map memory into parts of the last range, all sizes in MiB, and free the handles."""
    return [word for at in offsets for word in (f"alloc={size}M", f"map-at={at}M", "rm-free")]


def test_pieces_of_a_range_go_with_it(newer: Daemon) -> None:
    """Also where the driver tells no length: the next ones are looked for, and found to be gone."""
    every = pieces(300, 0, 300, 600)
    run(newer, "uvm", *["range=900M", *every, "uvm-free"] * 3, "alloc=1000M")
    run(newer, "uvm", "range=900M", *pieces(300, 300, 600), "uvm-free", "alloc=1000M")
    run(newer, "uvm", "range=500M", *pieces(20, *range(480, -1, -20)), "uvm-free", "alloc=1000M")


@pytest.mark.enforcement
def test_pieces_of_the_next_range_stay(newer: Daemon) -> None:
    """Ranges above one that is freed keep theirs, whatever they were said to be."""
    # The probe frees its last range, so the one above comes first.
    above = ("range=300M", "range=400M", *pieces(200, 0, 200))
    words = ["uvm", *above, "swap", *pieces(150, 0, 150), "uvm-free", NO_MEMORY, "alloc=602M", "alloc=600M"]
    run(newer, *words, "rm-free", "uvm-free", "alloc=1000M")


def test_without_enforcement_it_is_only_counted(make_daemon: MakeDaemon) -> None:
    """enforce: false refuses nothing."""
    run(make_daemon(config="enforce: false\n"), "uvm", *MAPPED, "alloc=1000M")
