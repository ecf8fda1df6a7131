# SPDX-License-Identifier: Apache-2.0
"""Reserved and used memory of each GPU of a node, by the engine.

The document is the page /v1/usage of the agent (server.py). Sizes are bytes. Its version changes when a
reader of this one would go wrong; an added member does not change it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass

from cgpu.client.directory import directory_of
from cgpu.client.reservations import Reservation
from cgpu.client.stat import SliceStat
from cgpu.client.tree import Tree
from cgpu.kubernetes.names import USAGE_VERSION
from cgpu.kubernetes.node.card import cards
from cgpu.kubernetes.node.records import ClaimName, Records

# A reading asks the engine for every entry, so clients within this time get the last one.
KEPT_S = 1.0


@dataclass(frozen=True, slots=True)
class NamedShare:
    """A share of a claim. claim: None where this node has no record of it."""

    share: str
    limit: int
    claim: ClaimName | None


@dataclass(frozen=True, slots=True)
class UsedSlice:
    """A part of a GPU that is promised.

    container: the name of its directory in the tree; None: a share that no container uses now. shares: none
    for a container beside Kubernetes.
    """

    container: str | None
    limit: int
    used: int
    shares: tuple[NamedShare, ...]


@dataclass(frozen=True, slots=True)
class UsedGpu:
    """A GPU. total: the card's bytes; used: by all slices together."""

    index: int
    uuid: str
    product: str
    total: int
    promised: int
    used: int
    slices: tuple[UsedSlice, ...]


def usage(tree: Tree, records: Records) -> tuple[UsedGpu, ...]:
    """Read engine and records. Raises CgpuError, EngineDownError."""
    claims = {share.share: record.claim for record in records.all()[0] for share in record.shares}
    found = []
    for card in cards(tree):
        stat = tree.gpu_stat(card.index)
        slices = tuple(_slices(stat.slices, tree.reserved(card.index), claims))
        used = sum(one.used for one in slices)
        found.append(UsedGpu(card.index, card.uuid, card.product, stat.memtotal, stat.promised, used, slices))
    return tuple(found)


def _slices(
    containers: Sequence[SliceStat], reserved: Sequence[Reservation], claims: Mapping[str, ClaimName]
) -> Iterator[UsedSlice]:
    names = {directory_of(one.id) for one in containers}
    by_user: dict[str | None, list[NamedShare]] = {}
    for one in reserved:
        directory = directory_of(one.container or "")
        # A container that ended between two reads uses nothing any more.
        user = directory if directory in names else None
        by_user.setdefault(user, []).append(NamedShare(one.share, one.slice.memsize, claims.get(one.share)))
    for container in containers:
        directory = directory_of(container.id)
        shares = tuple(by_user.get(directory, ()))
        yield UsedSlice(directory, container.slice.memsize, container.used, shares)
    for share in by_user.get(None, ()):
        yield UsedSlice(None, share.limit, 0, (share,))


def document(node: str, gpus: Sequence[UsedGpu]) -> bytes:
    """Return the answer as JSON."""
    whole = {"version": USAGE_VERSION, "node": node, "gpus": [asdict(one) for one in gpus]}
    return json.dumps(whole).encode() + b"\n"


class Usage:
    """Cached result of usage(), read again once a second at most."""

    def __init__(self, read: Callable[[], tuple[UsedGpu, ...]]) -> None:
        """Read by a function."""
        self._read = read
        self._lock = threading.Lock()
        self._until = 0.0
        self._last: tuple[UsedGpu, ...] = ()

    def now(self) -> tuple[UsedGpu, ...]:
        """Return what was read within the last second. Raises CgpuError."""
        with self._lock:
            if time.monotonic() >= self._until:
                self._last = self._read()
                self._until = time.monotonic() + KEPT_S
            return self._last
