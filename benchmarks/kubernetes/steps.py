# SPDX-License-Identifier: Apache-2.0
"""Steps of the measurement: each variant with more and more nodes, and with more and more earlier pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread

from benchmarks.kubernetes import objects
from benchmarks.kubernetes.load import Loader
from benchmarks.kubernetes.measure import Measured, measure, profile
from benchmarks.kubernetes.objects import Variant
from benchmarks.kubernetes.plane import UNLIMITED, Plane, Qps, device_class

VARIANTS: Sequence[Variant] = ("plain", "claims")
NODES = (100, 500, 1000, 2500, 5000)
FILLED = (1000, 10_000, 100_000)
#: as kube-scheduler has it unless told
DEFAULT_QPS = Qps(50)
PROFILE_S = 10

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Step:
    """One measurement. filled: pods that have their nodes before, of the same variant."""

    variant: Variant
    nodes: int
    filled: int = 0
    qps: Qps = UNLIMITED


@dataclass(frozen=True, slots=True)
class Result:
    step: Step
    measured: Measured


@dataclass(frozen=True, slots=True)
class Extent:
    """Extent of the measurement: up to so many nodes and pods, each time so many pods, or for so long."""

    nodes: int = NODES[-1]
    filled: int = FILLED[-1]
    pods: int = 1000
    seconds: float = 20.0
    #: where to write what the scheduler's processor time went to
    profiles: Path | None = None


def planned(extent: Extent) -> Iterator[list[Step]]:
    """Yield the steps of each control plane, in their order."""
    counts = [count for count in NODES if count <= extent.nodes]
    for variant in VARIANTS:
        for count in counts:
            steps = [Step(variant, count)]
            if count == counts[-1]:
                steps += [Step(variant, count, filled) for filled in FILLED if filled <= extent.filled]
            yield steps
    several = counts[len(counts) // 2]
    for variant in VARIANTS:
        yield [Step(variant, several, qps=DEFAULT_QPS)]


class Runner:
    """The steps on one control plane, each with the pods of those before."""

    def __init__(self, plane: Plane, loader: Loader, extent: Extent, say: Say) -> None:
        """Measure on a plane that runs."""
        self._plane = plane
        self._loader = loader
        self._extent = extent
        self._say = say
        self._filled = 0
        self._asked = 0

    def run(self, steps: Sequence[Step]) -> Iterator[Result]:
        """Yield what each step gives. Raises RuntimeError."""
        self._nodes(steps[0])
        for step in steps:
            self._fill(step)
            self._ask(step.variant)
            with self._plane.scheduling(step.qps), self._profiled(step):
                found = measure(self._plane.components, self._extent.pods, self._extent.seconds)
            yield Result(step, found)

    @contextmanager
    def _profiled(self, step: Step) -> Iterator[None]:
        """Meanwhile, have what the scheduler's time goes to, if that is wanted."""
        if self._extent.profiles is None:
            yield
            return
        path = self._extent.profiles / f"{step.variant}-{step.nodes}-{step.filled}.pprof"
        thread = Thread(target=lambda: path.write_bytes(profile(PROFILE_S)))
        thread.start()
        yield
        thread.join()

    def _nodes(self, step: Step) -> None:
        numbers = range(step.nodes)
        self._loader.send(objects.nodes(numbers))
        if step.variant == "claims":
            chosen = objects.Request("POST", f"{objects.RESOURCE_API}/deviceclasses", device_class())
            self._loader.send([chosen])
            self._loader.send(objects.slices(numbers))

    def _fill(self, step: Step) -> None:
        places = objects.places(range(self._filled, step.filled), step.nodes)
        if not places:
            return
        self._say(f"{step.variant}: making {len(places)} pods that have their nodes")
        if step.variant == "claims":
            self._loader.send(objects.claims([one.name for one in places]))
            self._loader.send(objects.allocations(places))
        self._loader.send(objects.placed_pods(places, step.variant))
        self._filled = step.filled

    def _ask(self, variant: Variant) -> None:
        """Make the pods that wait, and their claims before them."""
        names = [f"new-{number:06}" for number in range(self._asked, self._asked + self._extent.pods)]
        if variant == "claims":
            self._loader.send(objects.claims(names))
        self._loader.send(objects.pods(names, variant))
        self._asked += len(names)
