# SPDX-License-Identifier: Apache-2.0
"""Preparing a claim: reserve its shares in the engine, and tell runtime and container engine of them.

A pod for which another scheduler decides (pods.py) stands in a claim's place. Each step can be done again
with the same result. A step that fails takes back what this call has done; a process that is killed between
leaves a record, by which the next start goes on.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lightkube.models.core_v1 import ObjectReference
from lightkube.models.resource_v1 import ResourceClaimConsumerReference
from lightkube.resources.core_v1 import Pod
from lightkube.resources.resource_v1 import ResourceClaim

from cgpu import pod_shares, share_asks, shares
from cgpu.client.tree import Tree
from cgpu.config import effective
from cgpu.errors import CgpuError
from cgpu.kubernetes.labels import NOT_ISOLATED, read_labels
from cgpu.kubernetes.names import RUNTIME_CLASS, SCHEDULE_LABEL
from cgpu.kubernetes.node import cdi
from cgpu.kubernetes.node.allocation import AllocatedShare, NotHereError, allocated
from cgpu.kubernetes.node.api import Api, ApiServerError, GoneError
from cgpu.kubernetes.node.card import cards
from cgpu.kubernetes.node.consumers import AtOnceError, containers
from cgpu.kubernetes.node.records import LOCK_S, ClaimName, Record, Records
from cgpu.kubernetes.node.units import Unit
from cgpu.pod_shares import PodShares
from cgpu.replace import tidy_folder
from cgpu.slice import Slice

WHOLE = (
    f"label {SCHEDULE_LABEL}={NOT_ISOLATED} of this node: its containers have whole GPUs, and nothing holds "
    "them to what was counted"
)


@dataclass(frozen=True, slots=True)
class Folders:
    """Folders for files. shares: for our runtime; cdi: for container engines."""

    shares: Path
    cdi: Path


class Claims:
    """The claims of this node. One at a time is worked on."""

    def __init__(
        self, api: Api, tree: Tree, records: Records, folders: Folders, pool: str, unit: Unit
    ) -> None:
        """Use them; pool: the name of the node's devices."""
        self._api = api
        self._tree = tree
        self._records = records
        self._folders = folders
        self._pool = pool
        self._unit = unit
        self._lock = threading.Lock()
        self._told: set[tuple[str, str]] = set()

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other threads out, and an agent of another version that runs beside this one in an update."""
        if not self._lock.acquire(timeout=LOCK_S):
            raise CgpuError(
                f"the agent has worked on another claim for {LOCK_S:g} s; expected an API server and an "
                "engine that answer: cgpu status"
            )
        try:
            with self._records.locked():
                yield
        finally:
            self._lock.release()

    def prepare(self, name: ClaimName) -> Record:
        """Have a claim's shares ready for its containers; return its record. Raises CgpuError, OSError."""
        with self._alone():
            return self._prepare(name)

    def _prepare(self, name: ClaimName) -> Record:
        # Read while no other thread works on claims: an earlier reading could be older than the record.
        claim = self._api.claim(name)
        before = self._records.find(name.uid)
        unit = before.unit if before is not None else self._unit
        priority = _allows_claim_priority()
        wanted = allocated(claim, self._pool, cards(self._tree), unit, claim_priority=priority)
        isolated = before is not None or read_labels(self._api.node()).isolated
        pods = self._pods(name, claim, wanted, isolated=isolated)
        names = {one.uid: one.name for one in _consumers(claim) if one.uid in pods}
        record = Record(name, wanted, pods, unit, names, isolated)
        if isolated:
            self._keep(record, before)
        return record

    def keep(self, record: Record) -> None:
        """Have the shares of a pod ready for its containers. Raises CgpuError, OSError."""
        with self._alone():
            self._keep(record, self._records.find(record.claim.uid))

    def _keep(self, record: Record, before: Record | None) -> None:
        self._refuse_twice(record)
        if before is not None and before.shares != record.shares:
            self._undo(before)
            before = None
        if record != before:
            self._records.write(record)
        try:
            self._do(record)
        except BaseException:
            if before is None:
                self._undo(record)
            raise

    def _refuse_twice(self, record: Record) -> None:
        """Refuse a share that another claim has: taking this one back would take that one's, too."""
        ids = {share.share for share in record.shares}
        for other in self._records.all()[0]:
            both = ids & {share.share for share in other.shares}
            if other.claim.uid != record.claim.uid and both:
                raise CgpuError(f"share {min(both)}: {other.claim} has it already")

    def unprepare(self, uid: str) -> None:
        """Give back what a claim or pod holds on this node, if it does. Raises CgpuError, OSError."""
        with self._alone():
            record = self._records.find(uid)
            if record is not None:
                self._undo(record)

    def reconcile(self, log: Callable[[str], None]) -> None:
        """Make node and records agree: after a start of agent, engine or machine.

        A claim that fails is logged, and is no hindrance for others. Raises CgpuError, OSError.
        """
        with self._alone():
            records, faults = self._records.all()
        for record in records:
            try:
                self._check(record)
            except Exception as error:  # noqa: BLE001 - whatever is odd about one claim must not end the agent
                faults.append(_line(record, error))
        with self._alone():
            known, unread = self._records.all()
            # A record that cannot be read may be that of anything.
            if not unread:
                faults.extend(self._remove_unknown(known))
        for fault in faults:
            log(fault)

    def lacking(self) -> frozenset[str]:
        """Return the shares that are recorded and not reserved: of an engine that has lost what it knew."""
        reserved = {one.share for card in cards(self._tree) for one in self._tree.reserved(card.index)}
        recorded = {share.share for record in self._records.all()[0] for share in record.shares}
        return frozenset(recorded - reserved)

    def answer(self, log: Callable[[str], None]) -> None:
        """Look again at the claims whose shares containers wait for. Raises CgpuError, OSError.

        The kubelet calls no more for a claim that it has had prepared, whichever pods join it.
        """
        folder = str(self._folders.shares)
        for share, pod in share_asks.asked(folder):
            with self._alone():
                records, _ = self._records.all()
            of_share = [record for record in records if share in {one.share for one in record.shares}]
            if all(self._has_looked(record, log) for record in of_share):
                share_asks.answer(share, pod, folder)

    def _has_looked(self, record: Record, log: Callable[[str], None]) -> bool:
        try:
            self._check(record)
        except Exception as error:  # noqa: BLE001 - containers of other claims wait, too
            log(_line(record, error))
            return not isinstance(error, ApiServerError)
        return True

    def _check(self, record: Record) -> None:
        with self._alone():
            if self._records.find(record.claim.uid) != record:
                return  # the kubelet was faster
            if record.claim.kind == "pod":
                self._do(record)  # whether it still is one of this node is seen in pods.py
                return
            try:
                self._prepare(record.claim)
            except (GoneError, NotHereError):
                self._undo(record)
            except ApiServerError:
                # The record is enough for a lost share; a change is seen when the server answers.
                self._do(record)
                raise

    def _pods(
        self, name: ClaimName, claim: ResourceClaim, wanted: tuple[AllocatedShare, ...], *, isolated: bool
    ) -> dict[str, dict[str, tuple[str, ...]]]:
        """Return who may use a claim's shares. Raises CgpuError where there are pods and none of them may."""
        found: dict[str, dict[str, tuple[str, ...]]] = {}
        refused: list[tuple[Pod, CgpuError]] = []
        for consumer in _consumers(claim):
            try:
                pod = self._api.pod(name.namespace, consumer.name, consumer.uid)
                if isolated:
                    self._warn_of_runtime(pod, name)
                else:
                    self._tell(pod, "NotIsolated", f"{name}: {WHOLE}")
                found[consumer.uid] = dict(containers(pod, name.name, [share.request for share in wanted]))
            except GoneError:
                continue
            except AtOnceError as error:
                refused.append((pod, CgpuError(f"{name}: {error}")))
        if refused and not found:
            raise refused[0][1]
        for pod, why in refused:
            self._tell(pod, "ShareInUse", str(why))
        return found

    def _warn_of_runtime(self, pod: Pod, name: ClaimName) -> None:
        if pod.spec is not None and pod.spec.runtimeClassName in (None, "nvidia"):
            found = pod.spec.runtimeClassName or "none"
            why = f"its parts of GPUs come by runtimeClassName: {RUNTIME_CLASS}; this pod has {found}"
            self._tell(pod, "NoRuntimeClass", f"{name}: {why}")

    def _tell(self, pod: Pod, reason: str, message: str) -> None:
        """Write an event of a pod, once."""
        assert pod.metadata is not None
        key = (str(pod.metadata.uid), message)
        if key in self._told:
            return
        about = ObjectReference(
            apiVersion="v1",
            kind="Pod",
            namespace=pod.metadata.namespace,
            name=pod.metadata.name,
            uid=pod.metadata.uid,
        )
        with contextlib.suppress(ApiServerError):
            self._api.event(about, reason, message, warning=True)
            self._told.add(key)

    def _do(self, record: Record) -> None:
        # Not in the record: a start of the machine may give a card another index.
        indexes = {card.uuid: card.index for card in cards(self._tree)}
        for share in record.shares:
            if share.gpu not in indexes:
                raise CgpuError(f"{share.gpu} is not on this node any more; its cards: cgpu-smi")
            self._tree.reserve(share.share, (indexes[share.gpu], *share.slice))
        for file in _share_files(record):
            shares.write(file, str(self._folders.shares))
        if record.claim.kind == "pod" and pod_shares.is_on(str(self._folders.shares)):
            found = PodShares(_by_container(record))
            pod_shares.write(record.claim.uid, found, str(self._folders.shares))
        elif record.claim.kind == "claim":
            cdi.publish(self._folders.cdi, record.claim.uid, [share.share for share in record.shares])

    def _undo(self, record: Record) -> None:
        """Give back all of a record, first that by which a container could start. The record goes last."""
        if record.claim.kind == "pod":
            pod_shares.remove(record.claim.uid, str(self._folders.shares))
        else:
            cdi.withdraw(self._folders.cdi, record.claim.uid)
        for share in record.shares:
            shares.remove(share.share, str(self._folders.shares))
        for share in record.shares:
            self._tree.release(share.share)
        self._records.remove(record.claim.uid)

    def _remove_unknown(self, known: Sequence[Record]) -> Iterator[str]:
        """Remove what has no record: of a process that was killed, or of an older start of the machine."""
        for uid in cdi.published(self._folders.cdi) - {record.claim.uid for record in known}:
            cdi.withdraw(self._folders.cdi, uid)
        # No file that is known may have the name of one that was never put in place.
        self._records.tidy()
        tidy_folder(self._folders.shares)
        tidy_folder(self._folders.cdi, f"{cdi.PREFIX}*")
        recorded = {share.share for record in known for share in record.shares}
        for share in set(shares.listed(str(self._folders.shares))) - recorded:
            shares.remove(share, str(self._folders.shares))
        for card in cards(self._tree):
            for reservation in self._tree.reserved(card.index):
                if reservation.share not in recorded:
                    try:
                        self._tree.release(reservation.share)
                    except CgpuError as error:
                        yield str(error)


def _line(record: Record, error: Exception) -> str:
    what = error if isinstance(error, CgpuError | OSError) else f"{type(error).__name__}: {error}"
    return f"{record.claim}: {what}"


def _allows_claim_priority() -> bool:
    """Return the node's allow_claim_priority, false where its configuration cannot be read."""
    try:
        return effective.load().allow_claim_priority
    except CgpuError:
        return False


def _consumers(claim: ResourceClaim) -> Iterator[ResourceClaimConsumerReference]:
    """Yield the pods for which a claim is reserved."""
    for one in (claim.status.reservedFor or ()) if claim.status is not None else ():
        if one.resource == "pods" and not one.apiGroup:
            yield one


def _by_container(record: Record) -> dict[str, list[str]]:
    """Return the shares of a pod's containers."""
    found: dict[str, list[str]] = {}
    for share in record.shares:
        for name in record.pods[record.claim.uid][share.request]:
            found.setdefault(name, []).append(share.share)
    return found


def _share_files(record: Record) -> Iterator[shares.Share]:
    for share in record.shares:
        pods = {uid: requests[share.request] for uid, requests in record.pods.items()}
        claim = (record.claim.namespace, record.claim.name, record.claim.uid)
        yield shares.Share(share.share, claim, share.gpu, Slice(*share.slice), pods)
