# SPDX-License-Identifier: Apache-2.0
"""
Reads the tree at each scrape, and says it in metrics.

One read tells of a GPU with all its slices, so a scrape makes one for each GPU, and three more. A read holds
the engine's lock for as long as the core writes some hundred words; nothing of a scrape waits meanwhile.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from prometheus_client import Metric
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from cgpu.client.stat import GpuStat, Latency
from cgpu.client.tree import EngineDownError, Tree, is_index
from cgpu.errors import CgpuError
from cgpu.exporter import metrics
from cgpu.exporter.metrics import GpuView, Kind, Row, SliceView
from cgpu.exporter.names import Names
from cgpu.exporter.rates import Rates
from cgpu.exporter.text import Plain
from cgpu.smi.limits import compute_limit
from cgpu.smi.model import Container, Gpu

T = TypeVar("T")
Labels = dict[str, str]


class TreeCollector(Collector):
    """Metrics of one engine, for a registry of prometheus_client. Any thread may collect."""

    def __init__(
        self,
        tree: Callable[[], Tree],
        names: Names | None = None,
        *,
        dcgm: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Collect from a tree, which is asked for at each scrape. dcgm: dcgm-exporter's names besides."""
        self._tree = tree
        self._names = names or Names()
        self._dcgm = dcgm
        self._clock = clock
        self._rates = Rates()
        self._facts: dict[str, tuple[str, str]] = {}  # UUID to model and device
        self._lock = threading.Lock()

    def describe(self) -> Iterable[Metric]:
        """Name no metrics: registering must not read the tree."""
        return ()

    def collect(self) -> Iterable[Metric]:
        """Return all metrics; without an engine none but opencgpu_up."""
        with self._lock:
            try:
                return self._collected(self._tree())
            except CgpuError:
                return [_family(metrics.UP, "gauge", metrics.UP_HELP, [({}, 0.0)])]

    def _collected(self, tree: Tree) -> list[Metric]:
        engine, info = tree.engine_stat(), tree.read("engine").split(" ")
        gpus = self._gpus(tree)
        found = [
            _family(metrics.UP, "gauge", metrics.UP_HELP, [({}, 1.0)]),
            _family(
                metrics.ENGINE_INFO,
                "gauge",
                metrics.ENGINE_INFO_HELP,
                [(dict(zip(metrics.ENGINE_INFO_LABELS, info, strict=False)), 1.0)],
            ),
            *_families(metrics.ENGINE, [({}, engine)]),
            _durations(engine.latencies),
        ]
        return found + self._of_gpus(tree, gpus) + self._of_slices(gpus)

    def _gpus(self, tree: Tree) -> dict[str, GpuStat]:
        """Return the GPUs by index. One that cannot be read, as it is gone, is left out."""
        found = {}
        for name in sorted((one for one in tree.names() if is_index(one)), key=int):
            try:
                found[name] = tree.gpu_stat(int(name))
            except EngineDownError:
                raise
            except CgpuError:
                continue
        return found

    def _of_gpus(self, tree: Tree, gpus: Mapping[str, GpuStat]) -> list[Metric]:
        now = self._clock()
        plain, infos, dcgm = [], [], []
        for index, stat in gpus.items():
            view = GpuView(stat, self._rates.add(stat.uuid, now, stat.usage))
            labels = {"gpu": index, "UUID": stat.uuid}
            model, device = self._fact(tree, index, stat.uuid)
            plain.append((labels, view))
            infos.append(({**labels, "model": model, "device": device}, 1.0))
            host = {"device": device, "modelName": model, "Hostname": socket.gethostname()}
            dcgm.append(({**labels, **host}, view))
        info = _family(metrics.GPU_INFO, "gauge", metrics.GPU_INFO_HELP, infos)
        aliases = _families(metrics.DCGM, dcgm) if self._dcgm else []
        return [info, *_families(metrics.GPU, plain), *aliases]

    def _fact(self, tree: Tree, index: str, uuid: str) -> tuple[str, str]:
        """Return model and device of a GPU, which are read once."""
        if uuid not in self._facts:
            self._facts[uuid] = (tree.read(index, "name"), f"nvidia{tree.read_int(index, 'minor')}")
        return self._facts[uuid]

    def _of_slices(self, gpus: Mapping[str, GpuStat]) -> list[Metric]:
        now = self._clock()
        owners = self._names.of(one.id for stat in gpus.values() for one in stat.slices)
        slices, containers = [], {}
        for index, stat in gpus.items():
            for one, share in zip(stat.slices, _shares(stat), strict=True):
                of = owners[one.id]
                own = {
                    "container": of.container,
                    "pod": of.pod,
                    "namespace": of.namespace,
                    "name": of.name,
                    "id": of.id,
                }
                used = self._rates.add((stat.uuid, one.id), now, one.usage)
                slices.append(({**own, "gpu": index, "UUID": stat.uuid}, SliceView(one, share, used)))
                containers[one.id] = (own, one)
        known = {stat.uuid for stat in gpus.values()}
        self._rates.keep([*known, *((labels["UUID"], view.stat.id) for labels, view in slices)])
        return _families(metrics.SLICE, slices) + _families(metrics.CONTAINER, list(containers.values()))


def _families(rows: Sequence[Row[T]], things: Sequence[tuple[Labels, T]]) -> list[Metric]:
    return [_family(row.name, row.kind, row.help, _values(row, things)) for row in rows]


def _values(row: Row[T], things: Sequence[tuple[Labels, T]]) -> Iterator[tuple[Labels, float]]:
    for labels, thing in things:
        value = row.value(thing)
        # Most are numbers, and to ask whether one is a mapping takes longer than all else here.
        if isinstance(value, (int, float)):
            yield labels, value
        elif value is not None and row.label is not None:
            for word, one in value.items():
                yield {**labels, row.label: word}, one


def _family(name: str, kind: Kind, text: str, values: Iterable[tuple[Labels, float]]) -> Metric:
    # Of a counter the client library wants the name without its suffix.
    family = Plain(name.removesuffix("_total") if kind == "counter" else name, text, kind)
    family.samples = [Sample(name, labels, value) for labels, value in values]
    return family


def _durations(latencies: Mapping[str, Latency]) -> Metric:
    found = HistogramMetricFamily(
        metrics.CALL_DURATION, metrics.CALL_DURATION_HELP, labels=metrics.CALL_DURATION_LABELS
    )
    for outcome, latency in latencies.items():
        buckets = [
            ("+Inf" if math.isinf(bound) else repr(bound), calls) for bound, calls in latency.cumulative()
        ]
        found.add_metric([outcome], buckets, latency.ns / metrics.NS)
    return found


def _shares(stat: GpuStat) -> tuple[float | None, ...]:
    """Return what the policy gives each slice while all have work, 0 to 1."""
    return _shares_by(
        stat.policy,
        stat.max_inst,
        stat.prio_ratio,
        tuple((one.weight, one.highprio != 0) for one in stat.slices),
    )


@lru_cache(maxsize=64)
def _shares_by(
    policy: int, max_inst: int, prio_ratio: int, slices: tuple[tuple[int, bool], ...]
) -> tuple[float | None, ...]:
    containers = tuple(
        Container(
            directory=str(number),
            id=str(number),
            group=None,
            weight=weight,
            high_prio=high,
            allocated=None,
            used=None,
            pids=(1,),  # as if it had work
            engine_time=None,
            read_at=0.0,
        )
        for number, (weight, high) in enumerate(slices)
    )
    gpu = Gpu(0, None, None, policy, max_inst, prio_ratio, None, containers)
    limits = [compute_limit(gpu, one) for one in containers]
    return tuple(None if limit is None else limit / 100 for limit in limits)
