# SPDX-License-Identifier: Apache-2.0
"""Arguments that change while a call is under way, and calls that are stopped in the middle."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.commands import eventually
from tests.integration.engine import MIB
from tests.vm.harness.counts import count
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import real_driver, write
from tests.vm.harness.process import Process
from tests.vm.harness.sliced_node import CARD, parse
from tests.vm.harness.slices import Stage, figures, set_knob, stage
from tests.vm.programs import build

LIMIT = 1000 * MIB
# Many of the calls that race ask for host memory, up to twice the limit each. NVIDIA's driver takes that
# memory from the guest, in whose memory all of it has to fit.
RACED = 32 * MIB if real_driver() else LIMIT
ATTEMPTS = count(100_000, 10_000_000)
ROUNDS = count(60, 5000)
SECONDS = count(1000, 6000)
WHOLE = 15109 * MIB
PIECE = 64 * MIB
BLOCK = 64 * MIB
LATE_MS = 5000
STAY_MS = 3_600_000

pytestmark = [pytest.mark.two_cpus, pytest.mark.at_once, pytest.mark.timeout(SECONDS + 200)]


def held_up(machine: Machine) -> int:
    """Return how many threads of `order` are in a call that goes no further."""
    script = 'cat /proc/[0-9]*/task/[0-9]*/stat 2>/dev/null | grep -c "(order.*) D" || true'
    return int(machine.shell(script).stdout)


@pytest.fixture
def staged(machine: Machine) -> Iterator[Stage]:
    """Return driver and engine, freshly loaded: the card's counters are this test's."""
    machine.shell("echo 1 >/proc/sys/vm/unprivileged_userfaultfd")
    with stage(machine) as made:
        yield made


def raced(process: Process, attempts: int = ATTEMPTS // 20) -> dict[str, int]:
    """Return what `races` says when it has made its attempts, of which none may have been told too much."""
    told = figures(process, SECONDS)
    assert (told["attempts"] >= attempts, told["leaks"]) == (True, 0), told
    return told


@pytest.mark.enforcement
def test_arguments_that_change_under_the_call(staged: Stage) -> None:
    """Threads that change class, size, command, handles, pointers of each other's calls gain not a byte."""
    process = staged.start(staged.slice("races", RACED), build("races"), RACED, ATTEMPTS, 3)
    told = raced(process, ATTEMPTS)
    at_rest = staged.view()
    print(told, at_rest.cards)
    assert at_rest.cards[0]["peak"] <= RACED
    assert at_rest.used == {(0, "races"): at_rest.cards[0]["used"]}
    staged.clear()


@pytest.mark.fake_driver("a knob of the driver")
@pytest.mark.enforcement
def test_a_driver_that_comes_back_late(machine: Machine) -> None:
    """The ledger follows the driver's order, also where it returns long after its work, by chance."""
    with stage(machine, test_late_us=2000) as staged:
        process = staged.start(staged.slice("late", RACED), build("races"), RACED, ATTEMPTS // 20, 16)
        raced(process)
        at_rest = staged.view()
        assert at_rest.cards[0]["peak"] <= RACED
        assert at_rest.used == {(0, "late"): at_rest.cards[0]["used"]}


@pytest.mark.fake_driver("a knob of the driver")
def test_a_handle_that_is_taken_while_its_free_comes_back(staged: Stage) -> None:
    """The driver frees, takes the handle again for another thread, and tells of the free last: it counts."""
    process = staged.start(staged.slice("order", LIMIT), build("order"), BLOCK)
    process.await_output("ready")
    set_knob(staged.machine, "test_late_ms", LATE_MS)
    process.write("\n")
    eventually(lambda: staged.view().cards[0]["used"] == 0, "the driver has freed", LATE_MS / 1000)
    set_knob(staged.machine, "test_late_ms", 0)
    process.write("\n")
    assert figures(process, SECONDS) == {"freed": 0, "taken": 0}
    at_rest = staged.view()
    assert at_rest.cards[0]["used"] == BLOCK
    assert at_rest.used == {(0, "order"): BLOCK}


@pytest.mark.fake_driver("a knob of the driver")
def test_a_call_that_is_left_over(staged: Stage) -> None:
    """A call that stays in the driver holds up no other container; a process that waits for it can die."""
    machine, program = staged.machine, build("order")
    gone = staged.slice("gone", LIMIT)
    staying = staged.start(gone, program, BLOCK)
    staying.await_output("ready")
    set_knob(machine, "test_late_ms", STAY_MS)
    staying.write("\n")
    eventually(lambda: staged.view().cards[0]["used"] == 0, "the driver has freed", SECONDS)
    set_knob(machine, "test_late_ms", 0)
    waiting = staged.start(gone, program, BLOCK)
    eventually(lambda: held_up(machine) == 2, "another call waits", SECONDS)
    waiting.stop(SECONDS)
    write(machine, "inst_ctl", "destroy id=gone").check()
    after = staged.slice("after", LIMIT).probe("alloc=64M", "info")
    assert after.returncode == 0, after.text
    assert held_up(machine) == 1


def test_the_same_without_the_module(driver: Machine) -> None:
    """Without the module that program holds more than the limit, and is told the card's size."""
    process = driver.start([driver.seen(build("races")), str(RACED), str(ATTEMPTS // 20), "3"])
    told = figures(process, SECONDS)
    peak = parse(driver.read_file(CARD).decode()).cards[0]["peak"]
    process.stop()
    assert peak > RACED
    assert told["leaks"] > 0


@pytest.mark.fake_driver("a knob of the driver")
@pytest.mark.enforcement
@pytest.mark.parametrize("deferred", [0, 1])
def test_processes_that_die_in_a_call(machine: Machine, deferred: int) -> None:
    """Processes, of 32 bits here, that are killed amid such calls leave no charge and no memory."""
    with stage(machine, defer_close=deferred) as staged:
        container = staged.slice("dying", RACED)
        process = staged.start(container, build("races", 32), RACED, ATTEMPTS // 20, "killed")
        raced(process)
        assert staged.view().cards[0]["peak"] <= RACED
        staged.clear()


@pytest.mark.enforcement
def test_containers_that_share_files(staged: Stage) -> None:
    """Two containers that race on the same files hold no more than both their limits, and leave nothing."""
    first, _ = staged.slice("first", RACED), staged.slice("second", RACED)
    process = staged.start(first, build("races"), RACED, ATTEMPTS // 5, "/sys/fs/cgroup/second")
    raced(process, ATTEMPTS // 5)
    at_rest = staged.view()
    assert at_rest.cards[0]["peak"] <= 2 * RACED
    assert at_rest.cards[0]["used"] <= sum(at_rest.used.values())
    assert all(used <= RACED for used in at_rest.used.values())
    staged.clear()
    staged.slice("whole", WHOLE)


@pytest.mark.enforcement
@pytest.mark.parametrize("way", ["heap", "parked"])
def test_a_handle_that_comes_again(staged: Stage, way: str) -> None:
    """A client whose handle stood for one on another file keeps its charges when that file is closed."""
    process = staged.start(staged.slice("again", LIMIT), build("reuse"), way, PIECE)
    told = figures(process, SECONDS)
    at_rest = staged.view()
    assert told == {"before": LIMIT // PIECE * PIECE, "after": 0}
    assert at_rest.used == {(0, "again"): at_rest.cards[0]["used"]} == {(0, "again"): told["before"]}


def test_calls_stopped_in_a_copy(staged: Stage) -> None:
    """A container that stops its calls in every copy holds up no other, and can be killed."""
    parked, other = staged.slice("parked", LIMIT), staged.slice("other", LIMIT)
    process = staged.start(parked, build("park"))
    process.await_output(" all\n", timeout=30)
    beside = other.probe("info", "fill=100M", "count", "free=all", "alloc=1000M:64k")
    assert "status=0x0" in beside.stdout.splitlines()[-1], beside.text
    assert staged.view().limits == {(0, "parked"): LIMIT, (0, "other"): LIMIT}
    late = staged.slice("late", LIMIT)
    assert late.probe("info", "alloc=64K").returncode == 0
    for container in (other, late):
        container.end()
        container.await_gone()
    parked.end()
    process.wait(30)
    staged.clear()


def test_descriptors_that_change_under_the_call(staged: Stage) -> None:
    """The ledger says what the driver holds, also when a descriptor changes during an export."""
    process = staged.start(staged.slice("swap", LIMIT), build("swap"), ROUNDS)
    told = figures(process, SECONDS)
    seen = staged.view()
    print(told, seen.cards)
    assert told["status"] == 0
    assert told["done"] > ROUNDS
    assert seen.used[0, "swap"] == seen.cards[0]["used"] > 0
    staged.clear()
