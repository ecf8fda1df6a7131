# SPDX-License-Identifier: Apache-2.0
"""
Reads the tree at each scrape, and says it in metrics.

One read tells of a GPU with all its slices, so a scrape makes one for each GPU, and two more, of entries that
stay open. A read holds the engine's lock for as long as the core writes some hundred words; nothing of a
scrape waits meanwhile.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from cgpu.client import witness
from cgpu.client.limits import Member, shares
from cgpu.client.open_entries import OpenEntries
from cgpu.client.policies import UNKNOWN, Policy
from cgpu.client.stat import BUCKETS, GpuStat, Latency, parse_engine, parse_gpu
from cgpu.client.tree import MODULE, EngineDownError, Tree, is_index
from cgpu.errors import CgpuError
from cgpu.exporter import metrics
from cgpu.exporter.metrics import GpuView, Row, SliceView
from cgpu.exporter.rates import Rates
from cgpu.exporter.text import LABEL_SETS, NO_LABELS, Family, Labels, Sample, with_label
from cgpu.smi.names import SHORT_WAIT_S, Directory, Owner

T = TypeVar("T")


class TreeCollector:
    """Metrics of one engine. Any thread may collect."""

    def __init__(
        self,
        tree: Callable[[], Tree],
        names: Directory | None = None,
        *,
        dcgm: bool = False,
        host: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Collect from a tree, which is asked for at each scrape.

        dcgm: dcgm-exporter's names besides. host: this machine's name in them, by default its host name.
        """
        self._tree = tree
        self._names = names or Directory(wait_s=SHORT_WAIT_S)
        self._dcgm = dcgm
        self._host = host
        self._clock = clock
        self._rates = Rates()
        self._facts: dict[str, tuple[str, str]] = {}  # UUID to model and device
        self._entries = OpenEntries()
        self._life: object = None  # of the engine that this is of:
        self._indexes: list[str] = []
        self._policies: Mapping[int, Policy] = {}
        self._lock = threading.Lock()

    def collect(self) -> list[Family]:
        """Return all metrics; without an engine none but opencgpu_up."""
        with self._lock:
            try:
                return self._collected(self._tree())
            except CgpuError:
                return [_up(0.0)]

    def _collected(self, tree: Tree) -> list[Family]:
        engine = parse_engine(self._entries.read(tree, "stat"))
        # The entry is read anew each time, as its word about the witness changes.
        info = self._entries.read(tree, "engine")
        indexes = self._of_engine(tree, info, engine.upgrades)
        gpus = self._gpus(tree, indexes)
        infos = [("", _engine_labels(info), 1.0)]
        found = [
            _up(1.0),
            Family(metrics.ENGINE_INFO, "gauge", metrics.ENGINE_INFO_HELP, infos),
            *_families(metrics.ENGINE, [(NO_LABELS, engine)]),
            _durations(engine.latencies),
        ]
        return found + self._of_gpus(tree, gpus) + self._of_slices(gpus)

    def _of_engine(self, tree: Tree, info: str, upgrades: int) -> list[str]:
        """Return the indexes of the GPUs, in order; read the policies."""
        life = (self._entries.generation, upgrades)
        if life != self._life:
            self._policies = tree.policies()
            self._indexes = sorted(filter(is_index, tree.names()), key=int)
            # For cgpud all are those of its start; the module's change while it is loaded.
            self._life = None if info.startswith(MODULE) else life
        return self._indexes

    def _gpus(self, tree: Tree, indexes: Iterable[str]) -> dict[str, GpuStat]:
        """Return the GPUs by index. One that cannot be read, as it is gone, is left out."""
        found = {}
        for name in indexes:
            try:
                found[name] = parse_gpu(self._entries.read(tree, name, "stat"))
            except EngineDownError:
                raise
            except CgpuError:
                continue
        return found

    def _of_gpus(self, tree: Tree, gpus: Mapping[str, GpuStat]) -> list[Family]:
        now = self._clock()
        plain, infos, dcgm = [], [], []
        for index, stat in gpus.items():
            rule = self._policies.get(stat.policy)
            name = UNKNOWN if rule is None else rule.name
            view = GpuView(stat, name, self._rates.add(stat.uuid, now, stat.usage))
            model, device = self._fact(tree, index, stat.uuid)
            labels = _gpu_labels(index, stat.uuid)
            plain.append((labels, view))
            infos.append(("", with_label(with_label(labels, "model", model), "device", device), 1.0))
            if self._dcgm:
                host = self._host or socket.gethostname()
                own = {"device": device, "modelName": model, "Hostname": host}
                dcgm.append((Labels({**labels.values, **own}), view))
        info = Family(metrics.GPU_INFO, "gauge", metrics.GPU_INFO_HELP, infos)
        return [info, *_families(metrics.GPU, plain), *(_families(metrics.DCGM, dcgm) if self._dcgm else ())]

    def _fact(self, tree: Tree, index: str, uuid: str) -> tuple[str, str]:
        """Return model and device of a GPU, which are read once."""
        if uuid not in self._facts:
            self._facts[uuid] = (tree.read(index, "name"), f"nvidia{tree.read_int(index, 'minor')}")
        return self._facts[uuid]

    def _of_slices(self, gpus: Mapping[str, GpuStat]) -> list[Family]:
        now = self._clock()
        owners = self._names.owners({one.id for stat in gpus.values() for one in stat.slices})
        slices, containers = [], {}
        known: list[Hashable] = []
        for index, stat in gpus.items():
            known.append(stat.uuid)
            for one, share in zip(stat.slices, _shares(stat, self._policies.get(stat.policy)), strict=True):
                own, labels = _slice_labels(owners[one.id], index, stat.uuid)
                key = (stat.uuid, one.id)
                known.append(key)
                slices.append((labels, SliceView(one, share, self._rates.add(key, now, one.usage))))
                containers[one.id] = (own, one)
        self._rates.keep(known)
        return _families(metrics.SLICE, slices) + _families(metrics.CONTAINER, list(containers.values()))


@lru_cache(maxsize=1)
def _engine_labels(info: str) -> Labels:
    words = info.split()
    named = zip(metrics.ENGINE_INFO_LABELS, (*words[:2], witness.word_of(words)), strict=False)
    return Labels({label: word for label, word in named if word})


@lru_cache(maxsize=LABEL_SETS)
def _gpu_labels(index: str, uuid: str) -> Labels:
    return Labels({"gpu": index, "UUID": uuid})


@lru_cache(maxsize=LABEL_SETS)
def _slice_labels(of: Owner, index: str, uuid: str) -> tuple[Labels, Labels]:
    """Return the labels of a container, and those of its slice of a GPU."""
    own = {name: getattr(of, name) for name in metrics.CONTAINER_LABELS}
    return Labels(own), Labels({**own, "gpu": index, "UUID": uuid})


def _families(rows: Sequence[Row[T]], things: Sequence[tuple[Labels, T]]) -> list[Family]:
    return [Family(row.name, row.kind, row.help, _samples(row, things)) for row in rows]


def _samples(row: Row[T], things: Sequence[tuple[Labels, T]]) -> list[Sample]:
    found: list[Sample] = []
    for labels, thing in things:
        value = row.value(thing)
        # Most are numbers, and to ask whether one is a mapping takes longer than all else here.
        if isinstance(value, (int, float)):
            found.append(("", labels, value))
        elif value is not None and row.label is not None:
            found += [("", with_label(labels, row.label, word), one) for word, one in value.items()]
    return found


def _up(value: float) -> Family:
    return Family(metrics.UP, "gauge", metrics.UP_HELP, [("", NO_LABELS, value)])


def _durations(latencies: Mapping[str, Latency]) -> Family:
    (label,) = metrics.CALL_DURATION_LABELS
    samples: list[Sample] = []
    for outcome, latency in latencies.items():
        labels = with_label(NO_LABELS, label, outcome)
        for bound, calls in latency.cumulative():
            samples.append(("_bucket", with_label(labels, "le", _bound_text(bound)), calls))
        samples += [("_count", labels, sum(latency.calls)), ("_sum", labels, latency.ns / metrics.NS)]
    return Family(metrics.CALL_DURATION, "histogram", metrics.CALL_DURATION_HELP, samples)


@lru_cache(maxsize=BUCKETS)
def _bound_text(bound: float) -> str:
    return "+Inf" if math.isinf(bound) else repr(bound)


def _shares(stat: GpuStat, rule: Policy | None) -> tuple[float | None, ...]:
    """Return what the policy gives each slice while all have work, 0 to 1."""
    members = tuple(Member(one.slice.weight, one.slice.highprio != 0, busy=True) for one in stat.slices)
    found = shares(rule, stat.max_inst, stat.prio_ratio, members)
    return tuple(None if share is None else share / 100 for share in found)
