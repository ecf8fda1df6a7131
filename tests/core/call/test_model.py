# SPDX-License-Identifier: Apache-2.0
"""Compares the registry and the ledger with a model of a few lines, over random histories."""

from __future__ import annotations

import ctypes
import errno
from dataclasses import dataclass, field
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.core.build import build_library
from tests.core.call.binding import (
    CARD_BYTES,
    MIB,
    NO_MEMORY,
    NOT_PERMITTED,
    NOT_SUPPORTED,
    OK,
    Bench,
    load,
    new_bench,
)

PAGE = 65536
DEVICE = 0xD0  # handles: one device per GPU, so DEVICE + gpu
FIRST_CLIENT = 0xC100  # handles: one client per container, never given out again
NAMES = st.sampled_from(["alpha", "beta", "gamma", "delta"])
GPUS = st.integers(0, 1)
HANDLES = st.integers(1, 6)
PICK = st.integers(0, 11)  # one of the containers that there are
FILES = st.integers(1, 3)  # open files that memory is exported on
PLACES = st.integers(0, 2)
SLICES = st.one_of(st.integers(1, 4 * PAGE), st.integers(1, 6000).map(lambda mib: mib * MIB))
SIZES = st.one_of(st.integers(1, 4 * PAGE), st.integers(1, 900).map(lambda mib: mib * MIB))


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return load(build_library(tmp_path_factory.mktemp("model")))


@dataclass
class Slice:
    """One container as the model knows it: bytes per GPU, and which memory its handles mean."""

    client: int
    memsize: dict[int, int]
    weight: dict[int, int]
    handles: dict[int, int] = field(default_factory=dict)  # handle -> memory
    memory: dict[int, tuple[int, int]] = field(default_factory=dict)  # memory -> GPU, bytes
    exports: dict[int, dict[int, int]] = field(default_factory=dict)  # file -> place -> memory

    def used(self, gpu: int) -> int:
        return sum(size for at, size in self.memory.values() if at == gpu)

    def settle(self) -> None:
        """Let go of the memory that nothing refers to."""
        held = {memory for places in self.exports.values() for memory in places.values()}
        held.update(self.handles.values())
        self.memory = {memory: size for memory, size in self.memory.items() if memory in held}

    def drop(self, handle: int) -> None:
        del self.handles[handle]
        self.settle()

    def put(self, file: int, index: int, handles: list[int]) -> None:
        """Put memory into a file's places; a handle of 0 empties one."""
        places = self.exports.setdefault(file, {})
        for place, handle in enumerate(handles, index):
            places.pop(place, None)
            if handle:
                places[place] = self.handles[handle]
        self.settle()


class Machine(RuleBasedStateMachine):
    """Random registrations and calls; the model says what each must come to."""

    library: ClassVar[ctypes.CDLL]
    state: ClassVar[ctypes.Array[ctypes.c_char]]

    def __init__(self) -> None:
        super().__init__()
        self.bench: Bench = new_bench(self.library, self.state)
        self.slices: dict[str, Slice] = {}
        self.made = 0
        self.clients = FIRST_CLIENT
        self.gone: list[Slice] = []  # removed containers that left something behind

    def orphaned(self, gpu: int) -> int:
        """Return the bytes that removed containers left behind."""
        return sum(gone.used(gpu) for gone in self.gone)

    def promised(self, gpu: int) -> int:
        """Return the bytes that cannot be promised again."""
        return self.orphaned(gpu) + sum(s.memsize.get(gpu, 0) for s in self.slices.values())

    def expect_create(self, name: str, asked: dict[int, tuple[int, int]]) -> int:
        """Return what the documented order of checks gives."""
        if any(size == 0 for size, _ in asked.values()) or any(not 1 <= w <= 20 for _, w in asked.values()):
            return -errno.EINVAL
        if name in self.slices:
            return -errno.EEXIST
        for gpu, (size, _) in asked.items():
            if size > CARD_BYTES - self.promised(gpu):
                return -errno.ENOMEM
        for gpu, (_, weight) in asked.items():
            if weight > 20 - sum(s.weight.get(gpu, 0) for s in self.slices.values()):
                return -errno.EDQUOT
        return 0

    @rule(name=NAMES, asked=st.dictionaries(GPUS, st.tuples(SLICES, st.integers(1, 9)), min_size=1))
    def create(self, name: str, asked: dict[int, tuple[int, int]]) -> None:
        wanted = self.expect_create(name, asked)
        gpus = " ".join(f"gpu={gpu}:{size}:{weight}" for gpu, (size, weight) in asked.items())
        assert self.bench.control(f"create id={name} pid=7 {gpus}\n") == wanted
        if wanted:
            return
        self.clients += 1
        self.slices[name] = Slice(
            self.clients, {g: s for g, (s, _) in asked.items()}, {g: w for g, (_, w) in asked.items()}
        )
        for gpu in asked:
            assert self.bench.device(self.bench.find(name), self.clients, DEVICE + gpu, gpu) == OK

    @initialize(memsize=SLICES)
    def first(self, memsize: int) -> None:
        self.create("alpha", {0: (memsize, 1), 1: (6000 * MIB, 2)})

    def picked(self, pick: int, gpu: int = 0) -> tuple[str, Slice, int]:
        """Return one of the containers, and one of its GPUs."""
        name = sorted(self.slices)[pick % len(self.slices)]
        gpus = sorted(self.slices[name].memsize)
        return name, self.slices[name], gpus[gpu % len(gpus)]

    @rule(name=NAMES, unlikely=st.integers(0, 3))
    def destroy(self, name: str, unlikely: int) -> None:
        if unlikely:
            return
        assert self.bench.control(f"destroy id={name}") == 0
        gone = self.slices.pop(name, None)
        if gone:
            self.gone.append(gone)

    @rule()
    def forget(self) -> None:
        """The driver drops the clients of removed containers; files keep what was exported on them."""
        self.bench.drop_orphans()
        for gone in self.gone:
            gone.handles.clear()
            gone.settle()

    @precondition(lambda self: self.slices)
    @rule(pick=PICK, at=GPUS, handle=HANDLES, size=SIZES)
    def allocate(self, pick: int, at: int, handle: int, size: int) -> None:
        name, found, gpu = self.picked(pick, at)
        if handle in found.handles:
            return
        rounded = -(-size // PAGE) * PAGE
        fits = rounded <= found.memsize[gpu] - found.used(gpu)
        status = self.bench.allocate(self.bench.find(name), found.client, DEVICE + gpu, handle, size)
        assert status == (OK if fits else NO_MEMORY)
        if fits:
            self.made += 1
            found.handles[handle] = self.made
            found.memory[self.made] = (gpu, rounded)

    @precondition(lambda self: self.slices)
    @rule(pick=PICK, which=PICK, handle=HANDLES)
    def dup(self, pick: int, which: int, handle: int) -> None:
        name, found, _ = self.picked(pick)
        if not found.handles or handle in found.handles:
            return
        source = sorted(found.handles)[which % len(found.handles)]
        gpu = found.memory[found.handles[source]][0]
        target = (found.client, DEVICE + gpu, handle)
        assert self.bench.dup(self.bench.find(name), target, (found.client, source)) == OK
        found.handles[handle] = found.handles[source]

    @precondition(lambda self: self.slices)
    @rule(pick=PICK, handle=HANDLES)
    def free(self, pick: int, handle: int) -> None:
        name, found, _ = self.picked(pick)
        assert self.bench.free(self.bench.find(name), found.client, handle) == OK
        if handle in found.handles:
            found.drop(handle)

    def has_others(self, found: Slice, file: int) -> bool:
        """Say whether another container has something on a file, or one that was removed."""
        everybody = [*self.slices.values(), *self.gone]
        return any(other.exports.get(file) for other in everybody if other is not found)

    @precondition(lambda self: self.slices)
    @rule(pick=PICK, file=FILES, handle=HANDLES)
    def export(self, pick: int, file: int, handle: int) -> None:
        name, found, _ = self.picked(pick)
        wanted = OK if handle in found.handles else NOT_SUPPORTED
        if self.has_others(found, file):
            wanted = NOT_PERMITTED
        assert self.bench.export(self.bench.find(name), found.client, handle, file) == wanted
        if wanted == OK:
            found.put(file, 0, [handle])

    @precondition(lambda self: self.slices)
    @rule(pick=PICK, file=FILES, index=PLACES, handles=st.lists(st.integers(0, 6), max_size=3))
    def export_list(self, pick: int, file: int, index: int, handles: list[int]) -> None:
        name, found, _ = self.picked(pick)
        wanted = OK if set(handles) <= {0, *found.handles} else NOT_SUPPORTED
        if self.has_others(found, file):
            wanted = NOT_PERMITTED
        place = (file, index)
        assert self.bench.export_list(self.bench.find(name), found.client, handles, place) == wanted
        if wanted == OK:
            found.put(file, index, handles)

    @precondition(lambda self: self.slices)
    @rule(pick=PICK, file=FILES, index=PLACES, handles=st.lists(HANDLES, min_size=1, max_size=3, unique=True))
    def import_(self, pick: int, file: int, index: int, handles: list[int]) -> None:
        """One object by the form for one, several by the form for a list."""
        name, found, gpu = self.picked(pick)
        if set(handles) & set(found.handles):
            return
        index = index if len(handles) > 1 else 0
        places = found.exports.get(file, {})
        known = all(place in places for place in range(index, index + len(handles)))
        wanted = OK if known and not self.has_others(found, file) else NOT_PERMITTED
        who, to = self.bench.find(name), (found.client, DEVICE + gpu)
        if len(handles) == 1:
            assert self.bench.import_(who, (*to, handles[0]), file) == wanted
        else:
            assert self.bench.import_list(who, (*to, handles), (file, index)) == wanted
        if wanted == OK:
            found.handles |= {handle: places[place] for place, handle in enumerate(handles, index)}

    @rule(file=FILES)
    def close(self, file: int) -> None:
        """The file has its last close; the next one under this number is another."""
        self.bench.close(file)
        for found in [*self.slices.values(), *self.gone]:
            found.exports.pop(file, None)
            found.settle()

    @precondition(lambda self: self.slices)
    @rule(pick=PICK, at=GPUS, size=st.one_of(SLICES, st.integers(0, CARD_BYTES)))
    def resize(self, pick: int, at: int, size: int) -> None:
        name, found, gpu = self.picked(pick, at)
        others = self.promised(gpu) - found.memsize[gpu]
        wanted = -errno.EBUSY if size < found.used(gpu) else 0
        if wanted == 0 and size > found.memsize[gpu] and size > CARD_BYTES - others:
            wanted = -errno.ENOMEM
        assert self.bench.write(f"{gpu}/{name}/memsize", f"{size}\n") == wanted
        if wanted == 0:
            found.memsize[gpu] = size

    @rule()
    def recover(self) -> None:
        """Taking the state up again changes nothing that can be seen."""
        assert self.bench.library.cgpu_state_recover(self.bench.state) == 0

    @invariant()
    def agrees(self) -> None:
        for name, found in self.slices.items():
            for gpu, size in found.memsize.items():
                used = found.used(gpu)
                assert used <= size
                process = f"PID: {100 + self.bench.find(name).slot} Mem: {used}\n" if used else ""
                assert self.bench.read(f"{gpu}/{name}/meminfo") == f"Free: {size - used}\n{process}"
        for gpu in range(2):
            assert self.bench.orphaned(gpu) == self.orphaned(gpu)
            given = sum(s.weight.get(gpu, 0) for s in self.slices.values())
            assert self.bench.read(f"{gpu}/free_weight") == f"{20 - given}\n"

    def teardown(self) -> None:
        """After everything was freed, closed and removed nothing is left."""
        for file in range(1, 4):
            self.close(file)
        for name, found in self.slices.items():
            for handle in list(found.handles):
                assert self.bench.free(self.bench.find(name), found.client, handle) == OK
            for gpu, size in found.memsize.items():
                assert self.bench.read(f"{gpu}/{name}/meminfo") == f"Free: {size}\n"
            assert self.bench.control(f"destroy id={name}") == 0
        for gpu in range(2):
            assert self.bench.read(f"{gpu}/free_weight") == "20\n"


def test_core_agrees_with_the_model(library: ctypes.CDLL) -> None:
    """Registrations, charges and refusals are those of a model of a page, in whatever order things come."""
    Machine.library = library
    Machine.state = ctypes.create_string_buffer(library.cgpu_state_bytes())
    health = [HealthCheck.too_slow, HealthCheck.data_too_large]
    run_state_machine_as_test(
        Machine,
        settings=settings(max_examples=60, stateful_step_count=30, suppress_health_check=health),
    )


def test_every_prefix_of_a_line_is_judged_by_itself(library: ctypes.CDLL) -> None:
    """The text of inst_ctl is never read beyond its length."""
    bench = new_bench(library, ctypes.create_string_buffer(library.cgpu_state_bytes()))
    text = b"create id=a pid=1 gpu=0:65536"
    for cut in range(len(text)):
        result = library.cgpu_inst_ctl(ctypes.byref(bench.core), text, ctypes.c_size_t(cut))
        first_whole = len(b"create id=a pid=1 gpu=0:6")
        assert result == (-errno.EINVAL if cut < first_whole else 0 if cut == first_whole else -errno.EEXIST)
