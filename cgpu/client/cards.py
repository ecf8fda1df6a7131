# SPDX-License-Identifier: Apache-2.0
"""The GPUs of a node, the slices on each, and the processes in these: the one model that all tools show.

Figures are those of the entries `stat`: sizes in bytes, times in nanoseconds. Shares are in percent of one
GPU; None: not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from time import monotonic

from cgpu.client import left, limits, scheduling
from cgpu.client.directory import directory_of
from cgpu.client.policies import UNKNOWN, Policy
from cgpu.client.scheduling import UNSAID, Scheduling
from cgpu.client.stat import GpuStat, SliceStat
from cgpu.client.tree import EngineDownError, Tree, is_whole
from cgpu.errors import CgpuError, show
from cgpu.files import read_bounded

PROC = "/proc"
MAX_NAME = 256
UNKNOWN_GROUP = "-"


@dataclass(frozen=True, slots=True)
class Process:
    """A process that holds memory of a slice. name: the kernel's, which the process may choose."""

    pid: int
    memory: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Container:
    """One container's slice of one GPU."""

    stat: SliceStat
    group: str | None = None
    """Its control group, as the engine names it."""
    processes: tuple[Process, ...] = ()
    name: str | None = None
    """The container engine's name for it."""
    limit: float | None = None
    """Share that policy, weights and priorities promise, if it has work."""
    utilisation: float | None = None
    """Share of GPU time between two readings."""
    throttled: float | None = None
    """Part of the time between two readings in which its share did not let it run."""

    @property
    def directory(self) -> str:
        """Its directory's name in the tree."""
        return directory_of(self.stat.id)

    @property
    def peak(self) -> int:
        """The most that was charged to it."""
        # Where the driver counts, `peak` is of one reading a second, and may miss what is used now.
        return max(self.stat.peak, self.stat.used)

    @property
    def refused(self) -> Mapping[str, int]:
        """How many of its calls were refused, by the reasons of `cgpu.client.stat`."""
        return {**self.stat.refused, **self.stat.refused_calls}


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU and the slices on it."""

    index: int
    model: str
    minor: int
    stat: GpuStat
    containers: tuple[Container, ...] = ()
    scheduling: Scheduling = UNSAID
    rule: Policy | None = None
    """The policy, as the engine says it."""
    reserved: int = 0
    """Bytes that are promised to shares and that no container has."""
    left: tuple[tuple[str, int], ...] = ()
    """Removed containers whose memory the driver has not freed, and its bytes."""
    read_at: float = 0.0
    """When `stat` was read, in seconds of the monotonic clock."""
    partial: bool = False
    """Slices of others are not among these, and counters that tell of them are 0."""
    bus: str | None = None
    """The card's place on the PCI bus, as nvidia-smi writes it."""
    utilisation: float | None = None
    """Share of GPU time that all slices had between two readings."""
    interval: float | None = None
    """Seconds between the two readings."""

    @property
    def free(self) -> int | None:
        """Memory that the card itself has left; None where MIG hides it."""
        return None if self.partial or self.stat.mig else self.stat.memfree

    @property
    def used(self) -> int | None:
        """Memory of the card that is taken, by whomever."""
        return None if self.free is None else max(0, self.stat.memtotal - self.free)

    @property
    def policy_name(self) -> str:
        """The policy's name, "unknown" where the engine does not say it."""
        return UNKNOWN if self.rule is None else self.rule.name


def read_cards(tree: Tree) -> tuple[Card, ...]:
    """Read every GPU, in order. Raises CgpuError, EngineDownError."""
    tree.read("version")  # an engine that died may leave an empty directory
    rules = tree.policies()
    found = (_card(tree, index, rules) for index in tree.indexes())
    return tuple(one for one in found if one is not None)


def _card(tree: Tree, index: int, rules: Mapping[int, Policy]) -> Card | None:
    """Return a GPU; None for one that goes meanwhile, as the module's do."""
    try:
        stat, read_at = tree.gpu_stat(index), monotonic()
        model, sched, gone = (tree.read(str(index), node) for node in ("name", "sched", "left"))
        minor = tree.read_int(str(index), "minor")
    except EngineDownError:
        raise
    except CgpuError:
        if index in tree.indexes():
            raise
        return None
    found = (_container(tree, str(index), one) for one in stat.slices)
    rule = rules.get(stat.policy)
    return Card(
        index,
        model,
        minor,
        stat,
        _with_limits(stat, rule, [one for one in found if one is not None]),
        scheduling.parse(sched),
        rule,
        stat.promised - sum(one.slice.memsize for one in stat.slices),
        tuple(left.parse(gone).items()),
        read_at,
    )


def _container(tree: Tree, index: str, stat: SliceStat) -> Container | None:
    """Return a slice; None where the container has ended meanwhile and its directory is gone."""
    directory = directory_of(stat.id)
    try:
        meminfo, owner = (tree.read(index, directory, node) for node in ("meminfo", "owner"))
    except EngineDownError:
        raise
    except CgpuError:
        if directory in tree.names(index):
            raise
        return None
    group = owner.partition(" ")[2]
    return Container(stat, None if group in ("", UNKNOWN_GROUP) else group, _processes(meminfo))


def _processes(meminfo: str) -> tuple[Process, ...]:
    """Return the processes that an entry `meminfo` has. Raises CgpuError where it reads wrong."""
    found = []
    for line in meminfo.splitlines():
        match line.split():
            case ["Free:", _]:
                continue
            case ["PID:", pid, "Mem:", size] if is_whole(pid) and is_whole(size):
                found.append(Process(int(pid), int(size), process_name(int(pid))))
            case _:
                raise CgpuError(f"meminfo: {show(line)}: expected a process; see the engine's log")
    return tuple(found)


def process_name(pid: int, proc: str = PROC) -> str | None:
    """Return the name that the kernel has of a process; None where it has ended.

    The command line is not read: it lies in the process's own memory, which can make a reader wait for ever.
    """
    try:
        raw = read_bounded(f"{proc}/{pid}/comm", MAX_NAME)
    except OSError:
        return None
    return raw.decode("utf-8", "replace").removesuffix("\n") or None


def _with_limits(
    stat: GpuStat, rule: Policy | None, containers: Iterable[Container]
) -> tuple[Container, ...]:
    containers = list(containers)
    members = tuple(
        limits.Member(one.stat.slice.weight, one.stat.slice.highprio != 0, bool(one.processes))
        for one in containers
    )
    shares = limits.shares(rule, stat.max_inst, stat.prio_ratio, members)
    return tuple(replace(one, limit=share) for one, share in zip(containers, shares, strict=True))


def with_utilisation(before: Iterable[Card], after: Iterable[Card]) -> tuple[Card, ...]:
    """Return the later reading with what its cards and containers had of the time since the one before."""
    known = {(card.index, card.stat.uuid): card for card in before}
    return tuple(_since(known.get((card.index, card.stat.uuid)), card) for card in after)


def _since(earlier: Card | None, card: Card) -> Card:
    if earlier is None or not card.scheduling.measures:
        return card
    elapsed = card.read_at - earlier.read_at
    stats = {one.stat.id: one.stat for one in earlier.containers}
    return replace(
        card,
        containers=tuple(_measured(stats.get(one.stat.id), one, elapsed) for one in card.containers),
        # A container that has the GPU whole counts nowhere.
        utilisation=None if card.stat.natives else part(earlier.stat.usage, card.stat.usage, elapsed),
        interval=elapsed,
    )


def _measured(earlier: SliceStat | None, one: Container, elapsed: float) -> Container:
    if earlier is None:
        return one
    return replace(
        one,
        utilisation=part(earlier.usage, one.stat.usage, elapsed),
        throttled=part(earlier.throttled, one.stat.throttled, elapsed),
    )


def part(before: int, after: int, elapsed: float) -> float | None:
    """Return the part of some seconds by which a counter of nanoseconds has grown, in percent."""
    if after < before or elapsed <= 0:
        return None
    return min(limits.WHOLE, limits.WHOLE * (after - before) / (elapsed * 1e9))
