# SPDX-License-Identifier: Apache-2.0
"""An engine and an API server that a test can have fail at any step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, cast

from lightkube.models.core_v1 import ObjectReference
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Node, Pod
from lightkube.resources.resource_v1 import ResourceClaim, ResourceSlice

from cgpu.client.tree import EngineDownError
from cgpu.errors import CgpuError
from cgpu.kubernetes.node.api import ApiServerError, GoneError
from cgpu.kubernetes.node.card import Card
from cgpu.kubernetes.node.records import ClaimName
from cgpu.slice import Slice
from tests.kubernetes.node.objects import NODE

if TYPE_CHECKING:
    from cgpu.request.grants import Grant


class KilledError(BaseException):
    """The agent was killed here."""


@dataclass
class FakeReservation:
    share: str
    slice: Slice


@dataclass
class FakeStat:
    lost: int


@dataclass
class FakeEngine:
    """Cards with reservations. fail_at: the number of the change that fails, and how."""

    cards: list[Card]
    held: dict[str, Grant] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    fail_at: tuple[int, type[BaseException]] | None = None
    changes: int = 0
    down: bool = False

    def indexes(self) -> list[int]:
        if self.down:
            raise EngineDownError("the engine is not running")
        return [card.index for card in self.cards]

    def read(self, gpu: str, entry: str) -> str:
        card = self.cards[int(gpu)]
        return {"uuid": card.uuid, "name": card.product, "mig": str(int(card.mig))}[entry]

    def read_int(self, gpu: str, entry: str) -> int:
        card = self.cards[int(gpu)]
        return {
            "memtotal": card.mib << 20,
            "max_inst": card.max_inst,
            "policy": card.policy,
            "minor": card.minor,
        }[entry]

    def gpu_stat(self, gpu: int) -> FakeStat:
        return FakeStat(int(self.cards[gpu].lost))

    def reserved(self, gpu: int) -> tuple[FakeReservation, ...]:
        return tuple(
            FakeReservation(share, Slice(*grant[1:])) for share, grant in self.held.items() if grant[0] == gpu
        )

    def reserve(self, share: str, grant: Grant) -> None:
        self._change()
        if self.held.get(share, grant) != grant:
            raise CgpuError(f"share {share}: it is there with another size")
        others = sum(one[1] for name, one in self.held.items() if one[0] == grant[0] and name != share)
        if others + grant[1] > self.cards[grant[0]].mib << 20:
            raise CgpuError(f"share {share}: GPU {grant[0]} has too little memory left")
        self.held[share] = grant

    def release(self, share: str) -> None:
        self._change()
        if share in self.used:
            raise CgpuError(f"share {share}: a container uses it")
        self.held.pop(share, None)

    def _change(self) -> None:
        self.changes += 1
        if self.fail_at is not None and self.changes == self.fail_at[0]:
            raise self.fail_at[1]("fails here")


@dataclass
class FakeApi:
    claims: dict[str, ResourceClaim] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    slices: dict[str, ResourceSlice] = field(default_factory=dict)
    events: list[tuple[str, str]] = field(default_factory=list)
    writes: int = 0
    down: bool = False
    pods_of_node: dict[str, Pod] = field(default_factory=dict)
    changes: list[tuple[str, Pod]] = field(default_factory=list)

    def claim(self, wanted: ClaimName) -> ResourceClaim:
        if self.down:
            raise ApiServerError("no answer from the API server")
        if wanted.uid not in self.claims:
            raise GoneError(f"{wanted} does not exist")
        return self.claims[wanted.uid]

    def pod(self, _namespace: str, _name: str, uid: str) -> Pod:
        if uid not in self.pods:
            raise GoneError("pod does not exist")
        return self.pods[uid]

    def list_pods(self) -> tuple[list[Pod], str]:
        if self.down:
            raise ApiServerError("no answer from the API server")
        return list(self.pods_of_node.values()), "1"

    def watch_pods(self, _version: str) -> Iterator[tuple[str, Pod]]:
        """Yield the changes that a test has put there, as long as there are any."""
        while self.changes:
            yield self.changes.pop(0)

    def node(self) -> Node:
        if self.down:
            raise ApiServerError("no answer from the API server")
        return Node(metadata=ObjectMeta(name=NODE, uid="node-uid", labels=self.labels))

    def slice(self, name: str) -> ResourceSlice | None:
        return self.slices.get(name)

    def write_slice(self, wanted: ResourceSlice, *, dry_run: bool = False) -> ResourceSlice:
        self.writes += not dry_run
        written = cast("ResourceSlice", ResourceSlice.from_dict(wanted.to_dict()))
        assert written.metadata is not None
        assert written.metadata.name is not None
        written.metadata.resourceVersion = str(self.writes)
        if not dry_run:
            self.slices[written.metadata.name] = written
        return written

    def delete_slice(self, name: str) -> None:
        self.slices.pop(name, None)

    def event(self, _about: ObjectReference, reason: str, message: str, *, warning: bool) -> None:
        self.events.append((reason, message))


def files_below(folder: Path) -> Iterator[str]:
    """Yield the names of all files, without the records' lock."""
    yield from sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
