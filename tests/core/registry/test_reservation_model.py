# SPDX-License-Identifier: Apache-2.0
"""Compares reservations with a model of a page, over random histories with recoveries in between."""

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
from tests.core.registry.binding import CARD_BYTES, Bench, load, new_bench

MOST = 20  # max_inst of a card
SHARES = st.sampled_from(["s1", "s2", "s3", "s4", "s5"])
NAMES = ("alpha", "beta", "gamma")
CONTAINERS = st.sampled_from(NAMES)
GPUS = st.integers(0, 1)
WEIGHTS = st.integers(1, 6)
PICK = st.integers(0, 11)  # one of the slices that there are
# Whole cards and what is left beside a byte, among sizes that fit several times.
SIZES = st.one_of(
    st.integers(1, CARD_BYTES),
    st.integers(1, CARD_BYTES // 6),
    st.sampled_from([1, CARD_BYTES // 2, CARD_BYTES // 3, CARD_BYTES - 1, CARD_BYTES, CARD_BYTES + 1]),
)


@pytest.fixture(scope="session")
def library() -> ctypes.CDLL:
    return load(build_library("library"))


@dataclass
class Part:
    """Part of a card that a share or a container has."""

    memsize: int
    weight: int
    highprio: int = 0


@dataclass
class Share:
    gpu: int
    part: Part


@dataclass
class Container:
    parts: dict[int, Part]
    shares: list[str] = field(default_factory=list)


class Reservations(RuleBasedStateMachine):
    library: ClassVar[ctypes.CDLL]
    states: ClassVar[list[ctypes.Array[ctypes.c_char]]]

    @initialize()
    def begin(self) -> None:
        self.bench: Bench = new_bench(self.library, self.states[0])
        self.shares: dict[str, Share] = {}
        self.containers: dict[str, Container] = {}

    # --- the model's arithmetic ---

    def user(self, share: str) -> str | None:
        return next((name for name, one in self.containers.items() if share in one.shares), None)

    def reserved_by(self, container: Container, gpu: int) -> list[Part]:
        return [self.shares[share].part for share in container.shares if self.shares[share].gpu == gpu]

    def taken(self, gpu: int, but: str = "") -> tuple[int, int, int]:
        """Return places, weights and bytes that are promised, to all but one container."""
        found = [(1, s.part.weight, s.part.memsize) for n, s in self.shares.items() if self.is_free(n, gpu)]
        for name, one in self.containers.items():
            if gpu not in one.parts or name == but:
                continue
            own, reserved = one.parts[gpu], self.reserved_by(one, gpu)
            found.append(
                (
                    max(1, len(reserved)),
                    max(own.weight, sum(part.weight for part in reserved)),
                    max(own.memsize, sum(part.memsize for part in reserved)),
                )
            )
        return sum(f[0] for f in found), sum(f[1] for f in found), sum(f[2] for f in found)

    def is_free(self, share: str, gpu: int) -> bool:
        return self.shares[share].gpu == gpu and self.user(share) is None

    def room(self, gpu: int, part: Part) -> int:
        places, weights, promised = self.taken(gpu)
        if places >= MOST:
            return -errno.ENOSPC
        if part.memsize > CARD_BYTES - promised:
            return -errno.ENOMEM
        return -errno.EDQUOT if part.weight > MOST - weights else 0

    # --- what is done ---

    @rule(share=SHARES, gpu=GPUS, size=SIZES, weight=WEIGHTS, highprio=st.integers(0, 1))
    def reserve(self, share: str, gpu: int, size: int, weight: int, highprio: int) -> None:
        part = Part(size, weight, highprio)
        there = self.shares.get(share)
        if there is not None:
            expected = 0 if there == Share(gpu, part) else -errno.EEXIST
        else:
            expected = self.room(gpu, part)
            if expected == 0:
                self.shares[share] = Share(gpu, part)
        line = f"reserve id={share} gpu={gpu}:{size}:{weight}:{highprio}"
        assert self.bench.control(line) == expected
        if expected == 0:
            assert self.bench.control(line) == 0

    @rule(share=SHARES)
    def release(self, share: str) -> None:
        expected = 0
        if self.user(share) is not None:
            expected = -errno.EBUSY
        else:
            self.shares.pop(share, None)
        assert self.bench.control(f"release id={share}") == expected

    @rule(container=CONTAINERS, gpu=GPUS, size=SIZES, weight=WEIGHTS)
    def create(self, container: str, gpu: int, size: int, weight: int) -> None:
        part = Part(size, weight)
        expected = -errno.EEXIST if container in self.containers else self.room(gpu, part)
        if expected == 0:
            self.containers[container] = Container({gpu: part})
        assert self.bench.control(f"create id={container} pid=7 gpu={gpu}:{size}:{weight}") == expected

    @rule(container=CONTAINERS, shares=st.lists(SHARES, min_size=1, unique=True), known=st.booleans())
    def create_by_shares(self, container: str, shares: list[str], *, known: bool) -> None:
        """known: leave out what would be refused, unless nothing is left then."""
        if known:
            free = [share for share in self.shares if self.user(share) is None]
            shares = [share for share in shares if share in free] or free[:1] or shares
            container = next((name for name in NAMES if name not in self.containers), container)
        if any(share not in self.shares for share in shares):
            expected = -errno.ENOENT
        elif container in self.containers:
            expected = -errno.EEXIST
        else:
            expected = -errno.EBUSY if any(self.user(share) for share in shares) else 0
        if expected == 0:
            parts: dict[int, Part] = {}
            for share in shares:
                found = self.shares[share]
                part = parts.setdefault(found.gpu, Part(0, 0))
                part.memsize += found.part.memsize
                part.weight += found.part.weight
                part.highprio |= found.part.highprio
            self.containers[container] = Container(parts, list(shares))
        named = " ".join(f"share={share}" for share in shares)
        assert self.bench.control(f"create id={container} pid=7 {named}") == expected

    @rule(container=CONTAINERS)
    def destroy(self, container: str) -> None:
        self.containers.pop(container, None)
        assert self.bench.control(f"destroy id={container}") == 0

    def slice(self, pick: int) -> tuple[str, int]:
        """Return a container and a card that it has a slice of."""
        there = [(name, gpu) for name, one in self.containers.items() for gpu in one.parts]
        return there[pick % len(there)]

    @precondition(lambda self: self.containers)
    @rule(pick=PICK, size=SIZES)
    def resize(self, pick: int, size: int) -> None:
        container, gpu = self.slice(pick)
        found = self.containers[container]
        fits = size <= found.parts[gpu].memsize or size <= CARD_BYTES - self.taken(gpu, container)[2]
        if fits:
            found.parts[gpu].memsize = size
        assert self.bench.write(f"{gpu}/{container}/memsize", str(size)) == (0 if fits else -errno.ENOMEM)

    @precondition(lambda self: self.containers)
    @rule(pick=PICK, weight=WEIGHTS)
    def weigh(self, pick: int, weight: int) -> None:
        container, gpu = self.slice(pick)
        found = self.containers[container]
        fits = weight <= found.parts[gpu].weight or weight <= MOST - self.taken(gpu, container)[1]
        if fits:
            found.parts[gpu].weight = weight
        assert self.bench.write(f"{gpu}/{container}/weight", str(weight)) == (0 if fits else -errno.EDQUOT)

    @rule(gpu=GPUS, most=st.integers(1, 25))
    def bound(self, gpu: int, most: int) -> None:
        """max_inst never goes below what is promised; it is put back at once."""
        places, weights, _ = self.taken(gpu)
        expected = -errno.EBUSY if places > most or weights > most else 0
        assert self.bench.write(f"{gpu}/max_inst", str(most)) == expected
        assert self.bench.write(f"{gpu}/max_inst", str(MOST)) == 0

    @rule()
    def recover(self) -> None:
        """A successor takes up the very state."""
        assert self.library.cgpu_state_recover(self.bench.state) == 0

    @rule()
    def take_over(self) -> None:
        """A successor takes what is in use into a state of its own."""
        fresh = next(state for state in self.states if state is not self.bench.state)
        self.library.cgpu_state_init(fresh, ctypes.c_uint64(1))
        assert self.library.cgpu_state_take_over(fresh, self.bench.state) == 0
        self.bench.state = fresh
        self.bench.core.state = ctypes.addressof(fresh)

    # --- what holds throughout ---

    @invariant()
    def agrees(self) -> None:
        for gpu in range(2):
            lines = [
                f"{name} {one.part.memsize} {one.part.weight} {one.part.highprio} {self.user(name) or '-'}"
                for name, one in self.shares.items()
                if one.gpu == gpu
            ]
            assert sorted(self.bench.read(f"{gpu}/reserved").splitlines()) == sorted(lines)
            places, weights, promised = self.taken(gpu)
            assert places <= MOST
            assert weights <= MOST
            assert promised <= CARD_BYTES
            assert self.bench.read(f"{gpu}/free_weight") == f"{MOST - weights}\n"
            self.probe(gpu, places, weights, CARD_BYTES - promised)
            for name, found in self.containers.items():
                if gpu in found.parts:
                    part = found.parts[gpu]
                    got = [self.bench.read(f"{gpu}/{name}/{n}") for n in ("memsize", "weight", "highprio")]
                    assert got == [f"{value}\n" for value in (part.memsize, part.weight, part.highprio)]

    def probe(self, gpu: int, places: int, weights: int, left: int) -> None:
        """The rest can be reserved, and not a byte more."""
        line = f"reserve id=probe gpu={gpu}:"
        if places < MOST:
            assert self.bench.control(f"{line}{left + 1}") == -errno.ENOMEM
        if places < MOST and weights < MOST and left:
            assert self.bench.control(f"{line}{left}:{MOST - weights}") == 0
            assert self.bench.control("release id=probe") == 0

    def teardown(self) -> None:
        """When containers and reservations have ended nothing is promised."""
        for name in list(self.containers):
            self.destroy(name)
        for share in list(self.shares):
            self.release(share)
        for gpu in range(2):
            assert self.bench.read(f"{gpu}/free_weight") == f"{MOST}\n"
            assert self.bench.control(f"reserve id=all gpu={gpu}:{CARD_BYTES}:{MOST}") == 0
            assert self.bench.control("release id=all") == 0


def test_reservations_agree_with_the_model(library: ctypes.CDLL) -> None:
    """Memory is never promised twice, and no reservation is lost, in whatever order things come."""
    Reservations.library = library
    size = library.cgpu_state_bytes()
    Reservations.states = [ctypes.create_string_buffer(size) for _ in range(2)]
    health = [HealthCheck.too_slow, HealthCheck.data_too_large]
    run_state_machine_as_test(
        Reservations,
        settings=settings(stateful_step_count=40, suppress_health_check=health),
    )
