# SPDX-License-Identifier: Apache-2.0
"""cgpud with its witness: a container that takes memory past the engine is stopped, and nobody else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.attacks.build import uvm_probe
from tests.integration.commands import eventually
from tests.integration.engine import MIB
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import load_driver, unload_driver
from tests.vm.harness.process import Process
from tests.vm.harness.slices import figures
from tests.vm.nvidia.daemon import RUN, SECONDS, GuestDaemon
from tests.vm.nvidia.witness import KEEP_CODE, build_witness
from tests.vm.programs import build

pytestmark = [pytest.mark.real_driver, pytest.mark.two_cpus]

LIMIT = 512 * MIB
PIECE = 64 * MIB
ATTEMPTS = 500
WORDS = ("alloc=256M", "alloc=1M:64k", "group", "context", "managed=64M", "dup", "export")
UVM_WORDS = ("uvm", "managed=64M", "touch=64M", "migrate", "alloc=32M", "used", "hold=1000")
# Not one page of a container's own is let pass.
CONFIG = "page_margin: 0\non_gain: {}\n"
RELOAD = """
printf '%s' "$1" >/run/cgpud.yaml
kill -HUP "$(cat /run/cgpu/cgpud.pid)"
"""
KILL_LOADER = "kill -9 $(/bin/busybox pidof cgpu-witness)"


class Node:
    """cgpud, and what it says of its witness."""

    def __init__(self, daemon: GuestDaemon) -> None:
        self.daemon = daemon
        self.seconds = daemon.machine.scaled(SECONDS)

    def await_word(self, word: str) -> None:
        eventually(
            lambda: f" witness={word}" in self.daemon.read("engine"),
            f"the witness is {word}: {self.daemon.read('engine')} {self.daemon.log()}",
            self.seconds,
        )

    def configure(self, reaction: str) -> None:
        self.daemon.machine.shell(RELOAD, CONFIG.format(reaction))
        self.await_word("setting" if reaction == "ignore" else "on")

    def gains(self) -> list[dict[str, Any]]:
        lines = self.daemon.machine.read_file(f"{RUN}/events.log").decode().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == "gained"]

    def race(self, name: str, register: int = LIMIT) -> Process:
        """Start a program that fills its slice, and then wins a piece beyond it."""
        words = (build("race_wrapper"), str(PIECE), str(ATTEMPTS))
        return self.daemon.start_program(name, *words, register=register)


@pytest.fixture(scope="module")
def node(machine: Machine) -> Iterator[Node]:
    load_driver(machine)
    machine.shell(KEEP_CODE)
    build_witness()
    daemon = GuestDaemon(machine, config=CONFIG.format("kill"))
    daemon.start()
    yield Node(daemon)
    daemon.stop()
    unload_driver(machine)


@pytest.fixture(autouse=True)
def _cleared(node: Node) -> Iterator[None]:
    yield
    # UVM keeps chunks that it has freed, so the card need not be empty.
    for process in node.daemon.processes:
        if process.running:
            process.stop()
    node.daemon.processes.clear()
    eventually(lambda: not node.daemon.view().limits, "no container is left", node.seconds)


@pytest.mark.enforcement
def test_a_raced_call(node: Node) -> None:
    """Who wins memory beyond the slice is stopped and named; neighbours of all habits are left alone."""
    daemon = node.daemon
    node.await_word("on")
    neighbour = daemon.hold(*WORDS, name="neighbour", size=LIMIT)
    moving = daemon.start_program("moving", uvm_probe(), *UVM_WORDS, register=LIMIT)
    moving.await_output("used status", timeout=node.seconds)
    racing = node.race("racing")
    done = racing.wait(node.seconds)
    assert f"filled={LIMIT}" in done.stdout
    assert done.returncode == -9, done.text
    (gain,) = node.gains()
    print(gain)
    assert (gain["id"], gain["gpu"], gain["bytes"]) == ("racing", 0, PIECE)
    assert gain["process"] == racing.pid
    assert "its processes were ended after" in gain["message"]
    assert neighbour.running
    assert moving.running
    assert daemon.probe("alloc=64M", size=LIMIT).returncode == 0
    assert " witness=on" in daemon.read("engine")


def test_the_loader_ends(node: Node) -> None:
    """A loader that dies is started again, and watches containers that run by then."""
    daemon = node.daemon
    first = daemon.hold(name="before", size=LIMIT)
    before = len(node.gains())
    daemon.machine.shell(KILL_LOADER)
    node.await_word("ended")
    node.await_word("on")
    assert node.race("before", register=0).wait(node.seconds).returncode == -9
    assert first.wait(node.seconds).returncode == -9
    assert [gain["id"] for gain in node.gains()[before:]] == ["before"]


def test_only_reported(node: Node) -> None:
    """With on_gain: report the container runs on, and the event says what it has."""
    node.configure("report")
    before = len(node.gains())
    racing = node.race("reported")
    assert figures(racing, node.seconds) == {"filled": LIMIT, "won": 1}
    (gain,) = node.gains()[before:]
    assert (gain["id"], gain["bytes"]) == ("reported", PIECE)
    assert gain["message"].endswith("it runs on")
    racing.stop()


def test_without_the_witness(node: Node) -> None:
    """Nobody sees the same gain where nobody watches."""
    node.configure("ignore")
    before = node.gains()
    racing = node.race("unseen")
    assert figures(racing, node.seconds) == {"filled": LIMIT, "won": 1}
    assert racing.running
    assert node.gains() == before
    racing.stop()
    node.configure("kill")
