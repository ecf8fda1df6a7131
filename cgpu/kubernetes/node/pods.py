# SPDX-License-Identifier: Apache-2.0
"""Pods of this node for which another system's scheduler decides, where a label of the node names the system.

The API server says what was decided, never a container. It becomes a record in the place of a claim's, with
shares of the same kind; what the engine cannot give, or does not fit, is refused, by an event and by the file
for which the pod's containers wait.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lightkube.models.core_v1 import ObjectReference
from lightkube.resources.core_v1 import Pod

from cgpu import pod_shares
from cgpu.client.tree import EngineDownError, Tree
from cgpu.errors import CgpuError, show
from cgpu.kubernetes.labels import read_labels
from cgpu.kubernetes.names import SCHEDULER_LABEL
from cgpu.kubernetes.node.allocation import AllocatedShare
from cgpu.kubernetes.node.api import Api, ApiServerError
from cgpu.kubernetes.node.card import Card, cards
from cgpu.kubernetes.node.decided import Decision, Part, annotations_of, decided
from cgpu.kubernetes.node.prepare import Claims
from cgpu.kubernetes.node.records import ClaimName, Record, Records
from cgpu.pod_shares import PodShares
from cgpu.request.grants import is_share
from cgpu.sizes import MIB
from cgpu.slice import Slice

ENDED = ("Succeeded", "Failed")
GONE = "DELETED"
REASON = "ShareRefused"


@dataclass(frozen=True, slots=True)
class Store:
    """Where shares are kept. folder: of their files."""

    tree: Tree
    records: Records
    folder: Path


class Pods:
    """The pods of this node, as the API server has them."""

    def __init__(
        self, api: Api, claims: Claims, store: Store, node: str, schedulers: Mapping[str, str]
    ) -> None:
        """Use them. schedulers: the name of each system's scheduler, of those that may decide."""
        self._api = api
        self._claims = claims
        self._tree = store.tree
        self._records = store.records
        self._folder = str(store.folder)
        self._node = node
        self._schedulers = schedulers
        self._lock = threading.Lock()
        self._is_chosen = False  # whether the node's label has been read
        self._label: str | None = None
        self._pods: dict[str, Pod] | None = None  # None: the API server has not listed them yet
        self._decided: set[str] = set()  # the pods for which something was decided, also what was refused
        self._refused: dict[str, str] = {}  # why, by the pod
        self._due: set[str] = set()  # the pods that have to be looked at
        self._is_left = True  # whether something may be left of pods that have ended

    @property
    def _system(self) -> str | None:
        return self._label if self._label in self._schedulers else None

    def may_decide(self) -> bool:
        """Return whether a label can have another system decide."""
        return bool(self._schedulers)

    def choose(self, log: Callable[[str], None]) -> None:
        """Read from the node's label which system decides. Raises CgpuError, OSError.

        With none, no container waits any more, and what pods have had is given back.
        """
        label = read_labels(self._api.node()).scheduler
        with self._lock:
            changed = not self._is_chosen or label != self._label
            self._is_chosen, self._label = True, label
            if changed:
                self._due, self._is_left = set(self._pods or {}), True
            if self._system is None:
                pod_shares.turn_off(self._folder)
            else:
                pod_shares.turn_on(self._folder)
        if changed and label and self._system is None:
            known = ", ".join(self._schedulers) or "no system"
            log(f"label {SCHEDULER_LABEL}={show(label)}: expected {known}, as --scheduler says")

    def follow(self) -> None:
        """Take all pods of this node, then each change, without an end. Raises CgpuError, OSError."""
        listed, version = self._api.list_pods()
        with self._lock:
            self._pods = {_uid(pod): pod for pod in listed if _may_have_shares(pod)}
            self._settle(self._pods)
        for kind, pod in self._api.watch_pods(version):
            with self._lock:
                self._change(kind, pod)

    def _change(self, kind: str, pod: Pod) -> None:
        assert self._pods is not None
        uid = _uid(pod)
        before = self._pods.pop(uid, None)
        if kind != GONE and _may_have_shares(pod):
            self._pods[uid] = pod
        elif before is None:
            return
        if before is None or uid not in self._pods or annotations_of(before) != annotations_of(pod):
            self._settle([uid])

    def retry(self) -> None:
        """Try again what was refused, or could not be given back. Raises CgpuError, OSError."""
        with self._lock:
            if self._due or self._is_left or self._refused:
                self._settle(list(self._refused))

    def _settle(self, uids: Iterable[str]) -> None:
        """Bring shares to what was decided for some pods, and take back those of pods that are gone.

        It does nothing before both the label and the pods are known. What a failure leaves is due next time.
        """
        self._due.update(uids)
        if not self._is_chosen or (self._system is not None and self._pods is None):
            return
        pods = (self._pods or {}) if self._system is not None else {}
        self._due &= set(pods)
        self._is_left = True
        if self._system is not None and self._due:
            found = cards(self._tree)
            if not found:  # as while it is started again
                raise EngineDownError("the engine has no GPU")
            for uid in [uid for uid in pods if uid in self._due]:
                self._decided.discard(uid)
                self._bring(self._system, pods[uid], found)
                self._due.remove(uid)
        self._decided &= set(pods)
        self._is_left = not self._forget()

    def _bring(self, system: str, pod: Pod, found: Sequence[Card]) -> None:
        uid = _uid(pod)
        try:
            decision = decided(system, self._schedulers[system], self._node, pod, found)
            if decision is None:
                return
            self._decided.add(uid)
            self._claims.keep(_record(pod, decision, found))
        except (EngineDownError, OSError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever is odd about one pod must not keep others waiting
            self._decided.add(uid)
            self._refuse(
                pod, str(error) if isinstance(error, CgpuError) else f"{type(error).__name__}: {error}"
            )
        else:
            self._refused.pop(uid, None)

    def _refuse(self, pod: Pod, why: str) -> None:
        """Have the pod's containers not start, and say why in an event, once."""
        uid = _uid(pod)
        with contextlib.suppress(CgpuError):
            self._claims.unprepare(uid)  # a container that runs keeps what it has
        pod_shares.write(uid, PodShares({}, why), self._folder)
        if self._refused.get(uid) == why:
            return
        self._refused[uid] = why
        assert pod.metadata is not None
        about = ObjectReference(
            "v1", kind="Pod", name=pod.metadata.name, namespace=pod.metadata.namespace, uid=uid
        )
        with contextlib.suppress(ApiServerError):
            self._api.event(about, REASON, why, warning=True)

    def _forget(self) -> bool:
        """Give back what pods have for which nothing is decided; return whether all of it went."""
        recorded = {record.claim.uid for record in self._records.all()[0] if record.claim.kind == "pod"}
        all_went = True
        for uid in (recorded | set(pod_shares.listed(self._folder)) | set(self._refused)) - self._decided:
            self._refused.pop(uid, None)
            try:
                self._claims.unprepare(uid)
            except CgpuError:
                all_went = False  # a container still uses it
            pod_shares.remove(uid, self._folder)
        return all_went


def _record(pod: Pod, decision: Decision, found: Sequence[Card]) -> Record:
    """Return the record of a pod. Init containers have the share of another container that has as much.

    They run before it, and a share serves one container at a time.
    """
    assert pod.metadata is not None
    assert pod.spec is not None
    uid = _uid(pod)
    before = [one.name for one in pod.spec.initContainers or () if one.restartPolicy != "Always"]
    order = sorted(decision, key=lambda name: name in before)
    users: list[tuple[Part, list[str]]] = []
    for name in order:
        for part in decision[name]:
            same = (names for other, names in users if other == part and name in before)
            names = next(same, None)
            if names is None:
                users.append((part, [name]))
            else:
                names.append(name)
    by_uuid = {card.uuid: card for card in found}
    shares = tuple(_share(uid, number, part, by_uuid[part.gpu]) for number, (part, _) in enumerate(users))
    containers = {str(number): tuple(names) for number, (_, names) in enumerate(users)}
    owner = ClaimName(str(pod.metadata.namespace), str(pod.metadata.name), uid, "pod")
    return Record(owner, shares, {uid: containers}, "exact", {uid: owner.name})


def _share(pod: str, number: int, part: Part, card: Card) -> AllocatedShare:
    weight = max(1, card.max_inst * part.cores // 100)
    return AllocatedShare(
        share=str(uuid.uuid5(uuid.UUID(pod), f"opencgpu.io/share/{number}")),
        request=str(number),
        device=card.device,
        gpu=card.uuid,
        slice=Slice(part.mib * MIB, weight).values(),
    )


def _uid(pod: Pod) -> str:
    return str(pod.metadata.uid if pod.metadata is not None else "")


def _may_have_shares(pod: Pod) -> bool:
    """Return whether a pod has not ended. One of a file of its node has no UID of the usual form."""
    ended = pod.status is not None and pod.status.phase in ENDED
    return is_share(_uid(pod)) and not ended
