# SPDX-License-Identifier: Apache-2.0
"""Containers at work on a simulated card whose time an engine divides: chain.h through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import c_char_p, c_int, c_long, c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.layouts.calls import Client, Done, Driver, How, Process
from tests.layouts.stage import CARD, CTL, OUTSIDE, Library, build
from tests.sim.abi import CHANNEL, GRAPHICS, GROUP

HERE = Path(__file__).resolve().parent
US: Final = 1_000
MS: Final = 1_000_000
SECOND: Final = 1_000_000_000
VERSION: Final = "580.142"
REGISTER_FD: Final = 201
SCHEDULE, SET_TIMESLICE = 0xA06C0101, 0xA06C0103
FAIR, PREEMPTIVE, WEIGHT, FIXED, SOFT, NATIVE = range(6)
AHEAD: Final = 30 * MS  # of work in the queue of who is greedy

SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "chain_new": (c_void_p, [c_void_p, c_uint64, c_uint32, c_uint32, c_uint64]),
    "chain_free": (None, [c_void_p]),
    "chain_client": (None, [c_void_p, c_uint32, c_uint64]),
    "chain_program": (c_int, [c_void_p, c_uint64, c_uint32, c_uint32, c_uint64, c_uint64]),
    "chain_ahead": (None, [c_void_p, c_uint32, c_uint64]),
    "chain_run": (c_int, [c_void_p, c_uint64]),
    "chain_busy": (c_uint64, [c_void_p, c_uint32]),
    "chain_completed": (c_uint64, [c_void_p, c_uint32]),
    "chain_write": (c_int, [c_void_p, c_char_p, c_char_p]),
    "chain_read": (c_long, [c_void_p, c_char_p, c_char_p, c_size_t]),
}


def load(output: Path) -> Library:
    """Build core, card, stage and chain as one library."""
    library = Library(build(output, more=tuple(sorted(HERE.glob("*.c")))))
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library.c, name)
        function.restype, function.argtypes = result, arguments
    return library


@dataclass
class Worker:
    """A process with a client and its groups, each with one channel that is kept busy."""

    client: Client
    node: int  # file of the card
    device: int
    groups: list[int] = field(default_factory=list)
    programs: list[int] = field(default_factory=list)


@dataclass
class Box:
    """A container and its processes."""

    name: str
    number: int
    workers: list[Worker] = field(default_factory=list)


class Card:
    """One simulated card, an engine, and containers."""

    def __init__(
        self, library: Library, *, policy: int, slice_ns: int = 2 * MS, enforce: bool = True
    ) -> None:
        """Start with nobody."""
        self.c = library.c
        self._stage = self.c.stage_new(library.state, VERSION.encode(), b"A10", int(enforce), 1)
        assert self._stage
        self.driver = Driver(library, VERSION, self._stage)
        self._tgid = 100
        own = Process(OUTSIDE, 1)
        file = self.c.stage_open(self._stage, OUTSIDE, CTL, 0)
        client = self.driver.client(own, file, How())
        assert client
        device = self.made(self.driver.device(client, 0, 0, How()))
        subdevice = self.made(self.driver.subdevice(client, device, 0, How()))
        self._chain = self.c.chain_new(self._stage, file, client.handle, subdevice, slice_ns)
        assert self._chain
        self.write("0/policy", policy)

    @staticmethod
    def made(answer: tuple[Done, int]) -> int:
        done, handle = answer
        assert (done.result, done.status) == (0, 0)
        return handle

    def close(self) -> None:
        self.c.stage_free(self._stage)
        self.c.chain_free(self._chain)

    def write(self, path: str, value: int) -> None:
        assert self.c.chain_write(self._chain, path.encode(), str(value).encode()) == 0, (path, value)

    def read(self, path: str) -> str:
        text = ctypes.create_string_buffer(4096)
        length = self.c.chain_read(self._chain, path.encode(), text, len(text))
        assert length >= 0, path
        return text.raw[:length].decode()

    def usage(self, box: Box) -> int:
        """Return what the tree says of a container's GPU time."""
        return int(self.read(f"0/{box.name}/usage"))

    def box(self, weight: int = 1, *, highprio: bool = False) -> Box:
        name = f"box{self._tgid}"
        line = f"create id={name} pid={self._tgid} gpu=0:{64 << 20}:{weight}:{int(highprio)}"
        self._tgid += 1
        number = self.c.stage_create(self._stage, name.encode(), line.encode())
        assert number >= 0, number
        return Box(name, number)

    def remove(self, box: Box) -> None:
        """Its processes end, and its registration is taken away."""
        for worker in box.workers:
            for program in worker.programs:
                self.c.chain_ahead(self._chain, program, 0)
            for file in (worker.node, worker.client.file):
                self.c.stage_close(self._stage, file)
        self.c.stage_destroy(self._stage, box.number)

    def worker(self, box: Box) -> Worker:
        self._tgid += 1
        process = Process(box.number, self._tgid)
        file = self.c.stage_open(self._stage, box.number, CTL, 0)
        node = self.c.stage_open(self._stage, box.number, CARD, 0)
        assert file
        assert node
        self.driver.raw((process, node), REGISTER_FD, bytearray(file.to_bytes(4, "little")))
        client = self.driver.client(process, file, How())
        assert client
        device = self.made(self.driver.device(client, 0, 0, How()))
        self.c.chain_client(self._chain, client.handle, file)
        box.workers.append(Worker(client, node, device))
        return box.workers[-1]

    def group(self, worker: Worker, length: int, grain: int = 1) -> int:
        """Make a scheduled group with one channel; returns its program, which launches nothing yet."""
        form = self.driver.form("NV_CHANNEL_GROUP_ALLOCATION_PARAMETERS")
        params = form.pack(engineType=GRAPHICS)
        group = self.made(self.driver.alloc(worker.client, worker.device, 0, GROUP, params, How()))
        params = self.driver.form("NV_CHANNELGPFIFO_ALLOCATION_PARAMETERS").pack(engineType=GRAPHICS)
        channel = self.made(self.driver.alloc(worker.client, group, 0, CHANNEL, params, How()))
        params = self.driver.form("NVA06F_CTRL_GPFIFO_SCHEDULE_PARAMS").pack(bEnable=1)
        done = self.driver.control(worker.client, group, SCHEDULE, params, How())
        assert (done.result, done.status) == (0, 0)
        program = int(
            self.c.chain_program(self._chain, worker.node, worker.client.handle, channel, length, grain)
        )
        assert program >= 0
        worker.groups.append(group)
        worker.programs.append(program)
        return program

    def ahead(self, program: int, ns: int) -> None:
        """Have a program keep so much work in its queue; 0: it launches no more."""
        self.c.chain_ahead(self._chain, program, ns)

    def greedy(self, box: Box, length: int = MS, grain: int = 1, groups: int = 1) -> Worker:
        """Start a process that always has work."""
        worker = self.worker(box)
        for _ in range(groups):
            self.ahead(self.group(worker, length, grain), max(AHEAD, 2 * length))
        return worker

    def run(self, ns: int) -> None:
        assert self.c.chain_run(self._chain, ns) == 0

    def busy(self, box: Box) -> int:
        """Return the time that the card says a container's kernels ran, in nanoseconds."""
        programs = [program for worker in box.workers for program in worker.programs]
        assert all(self.c.chain_completed(self._chain, one) < 1 << 63 for one in programs), "work was lost"
        return sum(self.c.chain_busy(self._chain, one) for one in programs)

    def shares(self, boxes: list[Box], ns: int) -> list[float]:
        """Return each container's part of the time that passes now."""
        before = [self.busy(box) for box in boxes]
        self.run(ns)
        return [(self.busy(box) - was) / ns for box, was in zip(boxes, before, strict=True)]


@contextmanager
def card(library: Library, policy: int, **options: Any) -> Iterator[Card]:
    """Give a card, and take it away again."""
    made = Card(library, policy=policy, **options)
    try:
        yield made
    finally:
        made.close()
