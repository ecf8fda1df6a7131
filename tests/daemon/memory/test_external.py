# SPDX-License-Identifier: Apache-2.0
"""Memory that UVM maps stays charged, even when its handle is freed.

The charge ends when the memory is unmapped, its range is freed, or its process ends.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.attacks.build import uvm_client, uvm_probe
from tests.daemon.harness import MIB, Daemon, Sliced, serve_cards, serving
from tests.integration.commands import eventually

LIMIT = 1000 * MIB
SLICE = f"gpu=0:{LIMIT}"
NO_MEMORY = "expect=0x51"  # NV_ERR_NO_MEMORY for the next step
NO_NUMBER = "expect=0x4f"  # NV_ERR_NO_FREE_FIFOS
# Numbers for channels of a container of this size (docs/scheduling.md).
NUMBERS = 960 // 20 + 960 * 1000 // 15110
# Map 600 MiB of card memory, then free the memory's handle.
MAPPED = ("alloc=600M", "range=600M", "map", "rm-free")


def run_probe(daemon: Daemon, *words: str, gpus: str = SLICE) -> str:
    """Run uvm-probe to its end in a slice; every step must return the expected status."""
    return daemon.slice(1, gpus, *words, program=uvm_probe()).succeeds()


@pytest.fixture
def first_process(daemon: Daemon) -> Iterator[Sliced]:
    """Return the first process of a slice, which only keeps the slice."""
    process = daemon.slice(2, SLICE, "hold", until="hold")
    yield process
    process.finish()


def start_probe(daemon: Daemon, first_process: Sliced, *words: str) -> Sliced:
    return daemon.join(first_process, str(uvm_probe()), "--dev", str(daemon.run / "sim"), *words)


@pytest.fixture
def start_waiting(daemon: Daemon, first_process: Sliced) -> Iterator[Callable[..., Sliced]]:
    """Return a function that starts uvm-probe in the slice.

    After the given steps the probe prints the bytes used on the card, and waits for a line.
    """
    started: list[Sliced] = []

    def start_one(*words: str, then: tuple[str, ...] = ()) -> Sliced:
        started.append(start_probe(daemon, first_process, *words, "used", "wait", *then))
        started[-1].line("bytes=")
        return started[-1]

    yield start_one
    for sliced in started:
        sliced.process.kill()
        sliced.finish()


def test_map_while_another_thread_unmaps(daemon: Daemon) -> None:
    """Mapping memory while another thread unmaps it gains nothing: the charge ends only with the mapping."""
    limit = 200 * MIB
    sliced = daemon.slice(1, f"gpu=0:{limit}", "uvm", "map-beside=60", "used", "wait", program=uvm_probe())
    sliced.line("bytes=")
    assert daemon.given() <= daemon.used(sliced) <= limit
    sliced.process.kill()
    sliced.finish()
    eventually(lambda: daemon.given() == 0, "the card has everything back")


@pytest.mark.enforcement
def test_channels_that_uvm_keeps(
    daemon: Daemon, first_process: Sliced, start_waiting: Callable[..., Sliced]
) -> None:
    """A channel that UVM was told of has its numbers of the card after its group's end, until UVM lets go."""
    again = ("unregister", "channel", "group-free", NO_NUMBER, "channel")
    keeper = start_waiting("uvm", NO_NUMBER, "retain=200", *again, then=("unregister-space", "used", "wait"))
    start_probe(daemon, first_process, "uvm", NO_NUMBER, "channel").succeeds()
    keeper.go_on()
    assert keeper.line("unregister-space").strip() == "unregister-space status=0x0"
    # The last process ends its file, and UVM's memory for that.
    for _ in range(2):
        start_probe(daemon, first_process, "uvm", f"retain={NUMBERS}").succeeds()


def test_file_of_an_unprivileged_user(daemon: Daemon, first_process: Sliced) -> None:
    """The engine notices that a process without root's rights has closed its nvidia-uvm file."""
    program = Path(tempfile.mkdtemp()) / "uvm-probe"
    shutil.copy(uvm_probe(), program)
    for path in (program, program.parent, *daemon.run.parents, daemon.run):
        path.chmod(path.stat().st_mode | 0o055)
    user = ("/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    words = ("uvm", *MAPPED, "uvm-close", "used", "wait")
    sliced = daemon.join(first_process, *user, str(program), "--dev", str(daemon.run / "sim"), *words)
    sliced.line("bytes=")
    eventually(lambda: daemon.used(first_process) == 0, "the charge of the closed file has ended")
    sliced.process.kill()
    sliced.finish()
    shutil.rmtree(program.parent)


def uvm_descriptors(daemon: Daemon) -> int:
    count = 0
    for fd in Path(f"/proc/{daemon.pid()}/fd").iterdir():
        with suppress(FileNotFoundError):
            count += os.readlink(fd).endswith("/nvidia-uvm")
    return count


def await_looks(daemon: Daemon) -> None:
    """Have the engine look at all processes and files, twice: it does before it removes an ended container.

    One of the same name begins once the one before it was removed.
    """
    for _ in range(3):
        daemon.slice(3, SLICE, "hold", until="hold").kill()


def wait_until_released(daemon: Daemon, sliced: Sliced) -> None:
    """Wait until nothing is charged, the card has given no memory, and the daemon has no uvm file open."""
    eventually(lambda: daemon.used(sliced) == 0 and daemon.given() == 0, "no memory is charged or given")
    eventually(lambda: uvm_descriptors(daemon) == 0, "the daemon has closed its nvidia-uvm files")


@pytest.mark.parametrize("end", ["uvm-free", "unmap"])
def test_charge_ends_with_the_mapping(daemon: Daemon, end: str) -> None:
    """After either call that ends the mapping, the memory can be allocated again at once, and repeatedly."""
    words = [*MAPPED, end] * 5
    run_probe(daemon, "uvm", *words, "alloc=1000M")
    eventually(lambda: uvm_descriptors(daemon) == 0, "the daemon has closed its nvidia-uvm files")
    run_probe(daemon, "uvm", "alloc=1000M", "range=1000M", "map", end, "rm-free", "alloc=1000M")
    run_probe(daemon, "uvm", "alloc=1000M", "range=1000M", "map", end, NO_MEMORY, "alloc=2M")


@pytest.mark.enforcement
def test_memory_for_other_devices(daemon: Daemon) -> None:
    """Memory of UVM_ALLOC_DEVICE_P2P stays charged until its range is freed."""
    map_p2p = ("alloc=600M", "p2p=600M", "rm-free")
    run_probe(
        daemon, "uvm", *map_p2p, NO_MEMORY, "alloc=402M", "uvm-free", *map_p2p, "uvm-free", "alloc=1000M"
    )


@pytest.mark.enforcement
@pytest.mark.parametrize("call", ["unmap-far", "free-far"])
def test_call_that_fails_ends_nothing(daemon: Daemon, call: str) -> None:
    """An unmap or free of addresses that no range has fails, and the mapping and its charge stay."""
    run_probe(daemon, "uvm", *MAPPED, "expect=0x1e", call, NO_MEMORY, "alloc=402M")


def test_closed_file(daemon: Daemon) -> None:
    """Memory mapped on a closed file can be allocated again, even when a child still has the file open."""
    run_probe(daemon, "uvm", *MAPPED, "uvm-close", "alloc=1000M")
    run_probe(daemon, "uvm", *MAPPED, "keep=3", "uvm-close", "alloc=1000M")


@pytest.mark.enforcement
def test_process_that_ends(daemon: Daemon, start_waiting: Callable[..., Sliced]) -> None:
    """A process's mapped memory is released at its end, even when a child still has its files open."""
    sliced = start_waiting("uvm", *MAPPED)
    eventually(lambda: uvm_descriptors(daemon) == 1, "the daemon has one nvidia-uvm file open")
    assert "status=0x51" in daemon.enter(sliced, NO_MEMORY, "alloc=402M").finish()
    helper = start_probe(daemon, sliced, "uvm", "alloc=400M", "range=400M", "map", "keep=5", "used", "quit")
    helper.line("bytes=")
    helper.process.wait()
    eventually(
        lambda: (daemon.used(sliced), daemon.given()) == (600 * MIB, 600 * MIB),
        "the memory of the process that ended is given back",
    )
    sliced.kill()
    wait_until_released(daemon, sliced)


def test_process_without_its_first_thread(daemon: Daemon, first_process: Sliced) -> None:
    """A process keeps its mapped memory when both its first thread and the thread that mapped have ended."""
    program = str(uvm_client("first_thread"))
    sliced = daemon.join(first_process, program, "--dev", str(daemon.run / "sim"), str(600 * MIB))
    sliced.line("alone")
    await_looks(daemon)
    assert (daemon.used(first_process), daemon.given()) == (600 * MIB, 600 * MIB)
    sliced.kill()
    wait_until_released(daemon, first_process)


def test_child_that_maps(daemon: Daemon, start_waiting: Callable[..., Sliced]) -> None:
    """The driver refuses a child its parent's memory, and the child's end releases none of that memory."""
    refused = ("alloc=64M", "range=64M", "expect=0x1b", "fork-map", "uvm-free", "rm-free")
    sliced = start_waiting("uvm", *MAPPED, *refused)
    await_looks(daemon)
    assert (daemon.used(sliced), daemon.given()) == (600 * MIB, 600 * MIB)


def test_charges_survive_a_new_engine(daemon: Daemon, start_waiting: Callable[..., Sliced]) -> None:
    """The next engine has the charges in its ledger, and notices the calls that end them."""
    sliced = start_waiting("uvm", *MAPPED, then=("uvm-free", *MAPPED, "used", "wait"))
    daemon.crash()
    await_looks(daemon)
    assert (daemon.used(sliced), daemon.given()) == (600 * MIB, 600 * MIB)
    sliced.go_on()
    sliced.line("bytes=")
    assert (daemon.used(sliced), daemon.given()) == (600 * MIB, 600 * MIB)
    sliced.kill()
    wait_until_released(daemon, sliced)


def test_process_that_ends_while_no_engine_runs(daemon: Daemon, start_waiting: Callable[..., Sliced]) -> None:
    """The next engine gives back the memory of the process that ended."""
    sliced = start_waiting("uvm", *MAPPED)
    daemon.crash(sliced.process.kill)
    wait_until_released(daemon, sliced)


@pytest.mark.enforcement
def test_sharing_mode_is_refused(daemon: Daemon) -> None:
    """UVM_INIT_FLAGS_MULTI_PROCESS_SHARING_MODE (2) is refused: managed memory would outlive its process.

    The other flags of UVM_INITIALIZE go to the driver.
    """
    run_probe(
        daemon, "initialize=0", "initialize=1", "expect=0x56", "initialize=2", "expect=0x56", "initialize=3"
    )


class NewerDriver(Daemon):
    """A daemon whose cards have a driver that frees ranges by their start alone."""

    def start(self) -> None:
        server = serve_cards(self.run, "T4", "595.45.04")
        # cgpud ends the cards; Popen.__del__ warns of a process without a return code.
        server.returncode = 0
        super().start()


@pytest.fixture(scope="module")
def newer_driver() -> Iterator[Daemon]:
    with serving(NewerDriver, "T4") as running:
        yield running


def map_pieces(size: int, *offsets: int) -> list[str]:
    """Return steps that map memory at each offset of the last range and free its handle. Sizes are in MiB."""
    return [word for at in offsets for word in (f"alloc={size}M", f"map-at={at}M", "rm-free")]


def test_pieces_end_with_their_range(newer_driver: Daemon) -> None:
    """UVM_FREE ends every mapping of a range, even where its parameters have no length.

    The engine then looks for the mappings that follow, and finds that they are gone.
    """
    all_pieces = map_pieces(300, 0, 300, 600)
    run_probe(newer_driver, "uvm", *["range=900M", *all_pieces, "uvm-free"] * 3, "alloc=1000M")
    run_probe(newer_driver, "uvm", "range=900M", *map_pieces(300, 300, 600), "uvm-free", "alloc=1000M")
    run_probe(
        newer_driver, "uvm", "range=500M", *map_pieces(20, *range(480, -1, -20)), "uvm-free", "alloc=1000M"
    )


@pytest.mark.enforcement
def test_pieces_of_the_next_range_stay(newer_driver: Daemon) -> None:
    """A range above a freed one keeps its mappings and their charge."""
    # uvm-free frees the last range: map into the upper range first, then swap it with the lower one.
    above = ("range=300M", "range=400M", *map_pieces(200, 0, 200))
    words = [
        "uvm",
        *above,
        "swap",
        *map_pieces(150, 0, 150),
        "uvm-free",
        NO_MEMORY,
        "alloc=602M",
        "alloc=600M",
    ]
    run_probe(newer_driver, *words, "rm-free", "uvm-free", "alloc=1000M")
