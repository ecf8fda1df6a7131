# SPDX-License-Identifier: Apache-2.0
"""A witness of promises: each event of claims, and the engine's reservations all the time.

Kubernetes must never allocate more of a card than the node publishes, the engine never reserve more than the
card has, and a reservation must be that of a claim's share, of the same size.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus

import httpx2
from lightkube import ApiError, Client
from lightkube.resources.resource_v1 import ResourceClaim
from lightkube.utils.quantity import parse_quantity

from cgpu.client.tree import Tree
from cgpu.errors import CgpuError
from cgpu.kubernetes.names import DRIVER, MEMORY, WEIGHT
from cgpu.kubernetes.node.units import published_mib, share_mib
from tests.integration.engine import MIB, TREE

STEP_S = 0.02
AGAIN_S = 0.05
Promise = tuple[str, int]  # of which card, MiB


@dataclass(frozen=True)
class Allocated:
    """An allocation by Kubernetes. memory: in MiB as they are published."""

    share: str
    device: str
    memory: int
    weight: int


@dataclass
class Witness:
    """Observed promises. faults: each promise that cannot be. given: each share's claim and size."""

    client: Client
    namespace: str
    mib: dict[str, int]  # of each card, by its device
    most: int  # max_inst
    events: int = 0
    samples: int = 0
    faults: list[str] = field(default_factory=list)
    given: dict[str, tuple[str, Allocated]] = field(default_factory=dict)
    reserved: dict[str, set[Promise]] = field(default_factory=dict)
    _now: dict[str, tuple[Allocated, ...]] = field(default_factory=dict)

    # Claims

    def watch(self, ended: threading.Event) -> None:
        """Follow the claims, over any loss of the API server, event by event."""
        version: str | None = None
        while not ended.is_set():
            try:
                seen = self.client.watch(
                    ResourceClaim, namespace=self.namespace, resource_version=version, server_timeout=60
                )
                for kind, claim in seen:
                    assert claim.metadata is not None
                    version = claim.metadata.resourceVersion
                    self._event(kind, claim)
                    if ended.is_set():
                        return
            except ApiError as error:
                if error.status.code == HTTPStatus.GONE:
                    # An API server that has just started knows no older events; it begins with what is there.
                    version, self._now = None, {}
            except (httpx2.HTTPError, OSError, ValueError):
                pass
            ended.wait(AGAIN_S)

    def _event(self, kind: str, claim: ResourceClaim) -> None:
        assert claim.metadata is not None
        uid, name = str(claim.metadata.uid), str(claim.metadata.name)
        self.events += 1
        self._now[uid] = () if kind == "DELETED" else tuple(allocated(claim))
        for one in self._now[uid]:
            self.given[one.share] = (name, one)
        for device, mib in self.mib.items():
            parts = [one for given in self._now.values() for one in given if one.device == device]
            sums = (sum(p.memory for p in parts), sum(p.weight for p in parts), len(parts))
            if any(map(int.__gt__, sums, (published_mib(mib, "card"), self.most, self.most))):
                self.faults.append(f"event {self.events}, claim {name}: of {device} {sums} are allocated")

    # The engine

    def sample(self, ended: threading.Event) -> None:
        tree = Tree(str(TREE))
        while not ended.is_set():
            try:
                for gpu in tree.gpus():
                    self._look(tree, gpu.index, gpu.uuid.lower(), gpu.memtotal)
            except (CgpuError, OSError):
                ended.wait(AGAIN_S)  # it was killed
            ended.wait(STEP_S)

    def _look(self, tree: Tree, index: int, device: str, total: int) -> None:
        found = tree.reserved(index)
        self.samples += 1
        if sum(one.slice.memsize for one in found) > total:
            self.faults.append(f"sample {self.samples}: more is reserved than GPU {index} has: {found}")
        for one in found:
            self.reserved.setdefault(one.share, set()).add((device, one.slice.memsize // MIB))

    def judged(self) -> list[str]:
        """Return what was wrong: also each reservation that was not as its claim says."""
        wrong = list(self.faults)
        if not (self.events and self.samples and self.reserved):
            wrong.append(f"{self.events} events of claims, {self.samples} samples: expected some of each")
        for share, promises in self.reserved.items():
            name, claimed = self.given.get(share, ("", None))
            wanted = {(claimed.device, self.size(claimed))} if claimed is not None else set()
            if promises != wanted:
                wrong.append(f"share {share} of {name or 'no claim'}: reserved {promises}, expected {wanted}")
        return wrong

    def size(self, one: Allocated) -> int:
        return share_mib(self.mib[one.device], one.memory, "card")


def allocated(claim: ResourceClaim) -> Iterator[Allocated]:
    allocation = claim.status.allocation if claim.status is not None else None
    devices = allocation.devices if allocation is not None else None
    for one in (devices.results if devices is not None else None) or ():
        if one.driver == DRIVER:
            used = {name: parse_quantity(text) or 0 for name, text in (one.consumedCapacity or {}).items()}
            memory, weight = int(used[MEMORY]) // MIB, int(used[WEIGHT])
            yield Allocated(str(one.shareID), one.device, memory, weight)


@contextmanager
def witness(client: Client, namespace: str) -> Iterator[Witness]:
    """Yield a witness of a namespace; at the end nothing that it has seen may be wrong."""
    tree = Tree(str(TREE))
    gpus = tree.gpus()
    found = Witness(
        client, namespace, {gpu.uuid.lower(): gpu.memtotal // MIB for gpu in gpus}, gpus[0].max_inst
    )
    ended = threading.Event()
    threads = [
        threading.Thread(target=work, args=[ended], daemon=True) for work in (found.watch, found.sample)
    ]
    for thread in threads:
        thread.start()
    try:
        yield found
        time.sleep(1)  # the last events are on their way
    finally:
        ended.set()
        threads[1].join(10)
    wrong = found.judged()
    if wrong:
        raise AssertionError("\n".join(wrong))
