# SPDX-License-Identifier: Apache-2.0
"""Random histories of containers, processes and calls; both sides are compared after each step."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from tests.layouts.calls import Client, Driver, How, Object, Process
from tests.layouts.stage import ANSWER, CTL, FINE, INTERRUPTED, OUTSIDE, STATUS, UNHEARD, Library

KIB, MIB = 1 << 10, 1 << 20
PAGE, HUGE = 64 * KIB, 2 * MIB
CARD_MIB = 96
CARDS = f"A10={CARD_MIB}:2"
GPUS = 2
MOST_CONTAINERS = 3
NO_MEMORY = 0x51
STATUSES = st.sampled_from([0x1A, 0x1F, 0x33, 0x40, NO_MEMORY, 0x55, 0x65])

PICK = st.integers(0, 1 << 16)
HANDLES = st.integers(0, 9)  # 0: the driver chooses
SIZES = st.one_of(
    st.integers(1, 4 * PAGE), st.integers(1, 24 * MIB), st.integers(1, 1 << 64).map(lambda n: n - 1)
)
SLICES = st.one_of(st.just(8 * MIB), st.integers(1, 32).map(lambda mib: mib * MIB), st.integers(1, 4 * MIB))
FAULTS = st.sampled_from([FINE] * 8 + [STATUS, INTERRUPTED, UNHEARD])
BETWEEN = st.sampled_from([""] * 30 + ["destroy", "recover", "neighbour", "neighbour"])
HOWS = st.tuples(FAULTS, STATUSES, st.booleans(), st.booleans(), BETWEEN)
Drawn = tuple[int, int, bool, bool, str]


class Base(RuleBasedStateMachine):
    """Objects of a history, and the ways to pick from them."""

    library: ClassVar[Library]
    version: ClassVar[str]
    enforce: ClassVar[bool] = True
    exact: bool = True  # False: more may be charged of removed containers than they have

    def __init__(self) -> None:
        """Make nothing yet: how the engine sees is drawn first."""
        super().__init__()
        self.stage = 0
        self.processes: list[Process] = []
        self.clients: list[Client] = []
        self.dead: set[int] = set()
        self.held: dict[int, Process] = {}  # by UVM
        self.exported: dict[int, set[int]] = {}  # places of files
        self.in_kernel = True
        self.recovered = True
        self.tgid = 100
        self.order = random.Random(0)  # noqa: S311 - an order, not a secret

    @property
    def live(self) -> list[Process]:
        """Processes that run in a container that is registered."""
        return [p for p in self.processes if p.alive and p.container not in {*self.dead, OUTSIDE}]

    def containers(self) -> list[int]:
        return sorted({process.container for process in self.live})

    def usable(self) -> list[Client]:
        """Clients of processes that run in a container that is registered."""
        live = self.live
        return [client for client in self.clients if client.process in live]

    def pick(self, at: int, kind: str = "") -> Client | None:
        """Return one of the clients that can be used; with an object of a kind, where that is needed."""
        usable = [client for client in self.usable() if not kind or client.of(kind)]
        return usable[at % len(usable)] if usable else None

    def how(self, client: Client, drawn: Drawn) -> How:
        """Turn what was drawn into what befalls a call of a client."""
        fault, status, wrapped, wide, between = drawn
        return How(fault, status, wrapped, wide, self.between(client, between))

    def between(self, client: Client, what: str) -> Callable[[], None] | None:
        """Return what happens before the engine learns what came out of a call of a client.

        An engine in the kernel never takes its records up under a call.
        """
        if what == "recover" and self.in_kernel:
            return None
        steps = {"destroy": self.destroy_under, "recover": self.recover_under, "neighbour": self.neighbour}
        return partial(steps[what], client) if what else None

    def destroy_under(self, client: Client) -> None:
        """The container goes while the driver works: freed memory then stays in the ledger for a while."""
        self.exact = False
        self.dead.add(client.process.container)
        self.library.c.stage_destroy(self.stage, client.process.container)

    def recover_under(self, _client: Client) -> None:
        """The engine's records are taken up again while the driver works."""
        self.recovered &= self.library.c.stage_recover(self.stage) == 0

    def neighbour(self, client: Client) -> None:
        """Another container allocates meanwhile."""
        others = [c for c in self.usable() if c.process.container != client.process.container]
        if others and others[0].of("device"):
            self.driver.memory(others[0], others[0].of("device")[0], 0, {"size": PAGE}, How())

    def forget(self, client: Client) -> None:
        if client in self.clients:
            self.clients.remove(client)

    def charged(self, container: int, gpu: int) -> int:
        found: int = self.library.c.stage_charged(self.stage, container, gpu)
        return found

    def room(self, container: int, gpu: int) -> int:
        limit: int = self.library.c.stage_limit(self.stage, container, gpu)
        return limit - self.charged(container, gpu)

    def card_free(self, gpu: int) -> int:
        found: int = self.library.c.stage_card_free(self.stage, gpu)
        return found

    def said(self) -> str:
        text: bytes = self.library.c.stage_said(self.stage)
        return text.decode()

    @initialize(
        in_kernel=st.sampled_from([True, True, True, False]), seed=st.integers(0, 1 << 32), size=SLICES
    )
    def start(self, in_kernel: bool, seed: int, size: int) -> None:
        """One container, and a process outside that takes memory of the cards too."""
        self.in_kernel = in_kernel
        self.order.seed(seed)
        state = self.library.state
        name = self.version.encode()
        self.stage = self.library.c.stage_new(state, name, CARDS.encode(), int(self.enforce), int(in_kernel))
        assert self.stage
        self.driver = Driver(self.library, self.version, self.stage)
        self.spawn(OUTSIDE)
        self.create({0: size, 1: 16 * MIB})

    def spawn(self, container: int) -> Process:
        """Start a process with an open file, a client, and a device on each card that it has."""
        self.tgid += 1
        process = Process(container, self.tgid)
        self.processes.append(process)
        process.files.append(self.library.c.stage_open(self.stage, container, CTL, 0))
        client = self.driver.client(process, process.files[0], How())
        assert client
        self.clients.append(client)
        for gpu in range(GPUS):
            done, handle = self.driver.device(client, 0, gpu, How())
            if done.verdict != ANSWER and done.status == 0:
                client.objects[handle] = Object("device", gpu, client.handle)
        for device in client.of("device"):
            done, handle = self.driver.memory(client, device, 0, {"size": PAGE}, How())
            if done.verdict != ANSWER and done.status == 0:
                client.objects[handle] = Object("memory", client.objects[device].gpu, device)
        return process

    def create(self, sizes: dict[int, int]) -> None:
        """Register a container, if there is room, and start two processes in it."""
        if len(self.containers()) == MOST_CONTAINERS or len(self.processes) > 40:
            return
        name = f"box{len(self.processes)}"
        gpus = " ".join(f"gpu={gpu}:{size}:1" for gpu, size in sizes.items())
        line = f"create id={name} pid=7 {gpus}"
        number = self.library.c.stage_create(self.stage, name.encode(), line.encode())
        if number >= 0:
            self.spawn(number)
            self.spawn(number)

    @invariant()
    def agrees(self) -> None:
        """Charges are the cards' own figures, container by container."""
        if self.stage:
            assert self.library.c.stage_agree(self.stage, 1, int(self.exact)), self.said()
            assert self.recovered

    def close(self, process: Process, file: int) -> None:
        """A file has its last close."""
        process.files.remove(file)
        self.exported.pop(file, None)
        self.clients = [client for client in self.clients if client.file != file]
        self.library.c.stage_close(self.stage, file)

    def end(self, process: Process) -> None:
        """A process is killed: its files are closed in some order, and UVM lets go."""
        process.alive = False
        steps: list[Callable[[], None]] = [partial(self.close, process, file) for file in process.files]
        steps += [partial(self.let_go, hold) for hold, owner in self.held.items() if owner is process]
        self.order.shuffle(steps)
        for step in steps:
            step()
            self.agrees()

    def let_go(self, hold: int) -> None:
        del self.held[hold]
        self.library.c.stage_let_go(self.stage, hold)

    def teardown(self) -> None:
        """Everything is killed in some order, some containers are removed first, and nothing is left."""
        if not self.stage:
            return
        self.order.shuffle(self.processes)
        for container in self.containers():
            if self.order.randrange(2):
                self.dead.add(container)
                self.library.c.stage_destroy(self.stage, container)
        for process in self.processes:
            if process.alive:
                self.end(process)
        empty = self.library.c.stage_empty(self.stage)
        said = self.said()
        self.library.c.stage_free(self.stage)
        self.stage = 0
        assert empty, said
