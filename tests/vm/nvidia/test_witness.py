# SPDX-License-Identifier: Apache-2.0
"""The witness on NVIDIA's driver counts what the tests' own module does, which probes the same functions."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.attacks.build import uvm_probe
from tests.integration.engine import MIB
from tests.integration.probe import steps
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import load_driver, unload_driver
from tests.vm.harness.sliced_node import CARD, parse
from tests.vm.nvidia.driver import keep_started
from tests.vm.nvidia.witness import SECONDS, GuestWitness, begin_witness, start_witness
from tests.vm.programs import build

pytestmark = [pytest.mark.real_driver, pytest.mark.two_cpus]

REFUSED = (
    "bind 32 1", "bind 0", "watch 2 5", "watch 1024 5", "watch 3 5 6", "unwatch 5", "limit 0 1024 1",
    "limit 33 3 1", "act 256 3", "act 0 1024", "worker 256 1", "", "x" * 4000,
)  # fmt: skip
STOP_CARD = """
keeper=$(cat /run/nvidia-keeper)
kill "$keeper"
while kill -0 "$keeper" 2>/dev/null; do /bin/busybox sleep 0.05; done
rm /run/nvidia-keeper
"""


@pytest.fixture(scope="module")
def driver(machine: Machine) -> Iterator[Machine]:
    load_driver(machine)
    yield machine
    unload_driver(machine)


@pytest.fixture
def watched(driver: Machine) -> Iterator[GuestWitness]:
    """Return a witness that begins with the test, and knows the cgroups `one` and `two`."""
    made = begin_witness(driver)
    for name in ("one", "two"):
        made.watch(name)
    driver.shell("echo >/proc/opencgpu_card")
    yield made
    assert made.process.finish(SECONDS).returncode == 0


def agree(watched: GuestWitness) -> None:
    """Check that this count and that of the tests' own module are the same."""
    card = parse(watched.machine.read_file(CARD).decode()).cards[0]
    shown = watched.show()
    print(card, shown)
    assert sum(shown.values()) == card["used"], (card, shown)


def test_each_step_agrees(watched: GuestWitness) -> None:
    """Given out and given back, in pages of any size, by whom, and however it ends: both counts agree."""
    first = watched.hold("one", "alloc=512M")
    agree(watched)
    assert (watched.of("one"), watched.of("two")) == (512 * MIB, 0)
    second = watched.hold("two", "alloc=256M", "alloc=64K:64k", "alloc=1M:64k", "free=last")
    agree(watched)
    assert watched.of("two") == 256 * MIB + 65536
    third = watched.hold("one", "alloc=64M", "group", "context", "managed=64M")
    agree(watched)
    assert watched.of("one") >= 576 * MIB
    first.stop()
    agree(watched)
    second.finish(SECONDS)
    agree(watched)
    assert watched.of("two") == 0
    third.stop()
    agree(watched)
    assert watched.of("one") == 0


def test_a_full_card(watched: GuestWitness) -> None:
    """All pages of a card are on record, in the largest runs and the smallest; refused calls leave none."""
    held = watched.hold("one", "fill=4G:2m", "fill=64M:2m", "fill=1M:64k", "fill=64K:64k")
    agree(watched)
    got = sum(step.number("bytes") for step in steps(held.finished()) if step.name == "fill")
    assert watched.of("one") == got > 14 << 30
    held.stop()
    agree(watched)
    assert watched.of("one") == 0


def test_cgroups_below(watched: GuestWitness) -> None:
    """A container's own cgroups are the container's, however deep."""
    below = "one/" + "/".join("abcdefghijklmnopqrst")
    watched.machine.shell('mkdir -p "/sys/fs/cgroup/$1"', below)
    held = watched.hold(below, "alloc=64M")
    assert watched.of("one") == 64 * MIB
    held.stop()
    assert watched.of("one") == 0


def test_managed_memory_is_told_apart(watched: GuestWitness) -> None:
    """UVM's chunks, which several may share, are nobody's, and on record as such."""
    words = ("uvm", "managed=256M", "touch=256M", "migrate", "alloc=32M", "used", "hold=1000")
    held = watched.start_program("one", *words, program=uvm_probe())
    held.await_output("used status", timeout=SECONDS)
    agree(watched)
    assert watched.chunks >= 256 * MIB
    assert 32 * MIB <= watched.of("one") < 48 * MIB
    held.stop()
    agree(watched)
    assert watched.of("one") == 0


def test_excess_is_told(watched: GuestWitness) -> None:
    """An allocation beyond a limit comes with its size and process; one below does not."""
    watched.ask(f"limit 0 {watched.owners['one']} {128 * MIB}")
    below = watched.hold("one", "alloc=128M")
    beyond = watched.hold("one", "alloc=64M")
    watched.process.await_output("excess ", timeout=SECONDS)
    told = re.findall(r"excess .*", re.sub(r" ns=\d+", "", watched.process.out.decode()))
    whose = f"excess card=0 owner={watched.owners['one']} used={192 * MIB} limit={128 * MIB} bytes={64 * MIB}"
    assert told == [f"{whose} process={beyond.pid} task={beyond.pid} command=cgpu-probe"]
    below.stop()
    beyond.stop()


def test_a_processor_that_comes_back(watched: GuestWitness) -> None:
    """A processor loses its breakpoints when it goes; when it comes back, its calls are seen again."""
    machine = watched.machine
    machine.switch_second_cpu(on=False)
    watched.process.await_output("processors watched=1 online=1\n", timeout=SECONDS)
    watched.ask("show", "end\n")
    before = len(watched.process.out)
    machine.switch_second_cpu(on=True)
    watched.process.until(lambda: b"processors watched=2 online=2" in watched.process.out[before:], SECONDS)
    held = watched.hold("two", "alloc=64M", on="1")
    assert watched.of("two") == 64 * MIB
    agree(watched)
    held.stop()
    assert watched.of("two") == 0


def test_a_card_that_starts_anew(watched: GuestWitness) -> None:
    """A card that was stopped has another allocator, and its pages before are forgotten."""
    machine = watched.machine
    watched.hold("one", "alloc=64M").finish(SECONDS)
    machine.shell(STOP_CARD)
    keep_started(machine)
    watched.hold("one", "alloc=32M").finish(SECONDS)
    machine.shell("echo >/proc/opencgpu_card")
    watched.bind()
    held = watched.hold("one", "alloc=32M")
    agree(watched)
    assert watched.of("one") == 32 * MIB
    held.finish(SECONDS)


def test_registers_of_others(driver: Machine) -> None:
    """Where a processor has not enough registers, this is told; they are taken when they are free again."""
    debugger = driver.start([driver.seen(build("registers")), "1", "2"], input=None)
    debugger.await_output("taken", timeout=SECONDS)
    witness = begin_witness(driver, bind=False)
    assert b"processors watched=1 online=2 missing=1: No space left on device\n" in witness.process.out
    debugger.finish(SECONDS)
    witness.process.await_output("processors watched=2 online=2\n", timeout=SECONDS)
    witness.process.finish(SECONDS)


def test_orders_that_are_refused(driver: Machine) -> None:
    """Numbers out of bounds, too few or too many, and unknown words change nothing and end nothing."""
    witness = begin_witness(driver, bind=False)
    for line in REFUSED:
        assert witness.ask(line, refused=True).startswith("error: "), line
    assert witness.show() == {}
    witness.process.finish(SECONDS)


def test_a_card_that_is_not_known(driver: Machine) -> None:
    """Where nobody has named the card, what a container takes is told all the same."""
    witness = begin_witness(driver, bind=False)
    witness.watch("unnamed")
    witness.ask(f"limit 32 {witness.owners['unnamed']} {128 * MIB}")
    witness.hold("unnamed", "alloc=128M").finish(SECONDS)
    held = witness.hold("unnamed", "alloc=64M")
    witness.process.await_output(f"excess card=32 owner={witness.owners['unnamed']} used=", timeout=SECONDS)
    held.stop()
    witness.process.finish(SECONDS)


@pytest.mark.parametrize(
    ("capabilities", "answer"),
    [
        ("sys_admin,+syslog", "processors watched=2 online=2\n"),
        ("sys_admin", "refused addresses /proc/kallsyms hides the address of pmaAllocatePages"),
        ("bpf,+perfmon,+syslog", "refused registers no processor has breakpoints for it: Permission denied"),
    ],
)
def test_what_the_kernel_asks_for(driver: Machine, capabilities: str, answer: str) -> None:
    """CAP_SYSLOG and CAP_SYS_ADMIN are needed and enough; later the witness has none in force."""
    process = start_witness(driver, answer, only=capabilities)
    if answer.startswith("processors"):
        lines = driver.read_file(f"/proc/{process.pid}/status").decode().splitlines()
        assert "CapEff:\t0000000000000000" in lines
        assert "CapPrm:\t0000000000200000" in lines
    process.finish(SECONDS)
