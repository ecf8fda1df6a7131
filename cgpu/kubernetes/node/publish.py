# SPDX-License-Identifier: Apache-2.0
"""The ResourceSlice of a node: its wanted content, and keeping it so.

The kubelet removes it 30 seconds after the agent has gone, and whenever the kubelet starts; a watch tells.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lightkube.models.core_v1 import ObjectReference
from lightkube.models.meta_v1 import ObjectMeta, OwnerReference
from lightkube.models.resource_v1 import Device, ResourcePool, ResourceSliceSpec
from lightkube.resources.core_v1 import Node
from lightkube.resources.resource_v1 import ResourceSlice

from cgpu.errors import CgpuError
from cgpu.kubernetes.labels import read_labels
from cgpu.kubernetes.names import DRIVER, GATE_OFF, SCHEDULE_LABEL, SCHEDULER_LABEL, SLICE_PLACEMENT
from cgpu.kubernetes.node.api import Api, ApiServerError
from cgpu.kubernetes.node.devices import device, in_order, turns
from cgpu.kubernetes.node.health import WORDS, Health
from cgpu.kubernetes.node.units import Unit

NO_SHARING = f"no GPU is published, since this cluster gives out whole devices alone: {GATE_OFF}"


class NoSharingError(CgpuError):
    """The cluster cannot share a device."""


class Publisher:
    """Keeps the ResourceSlice of a node."""

    def __init__(self, api: Api, node: str, unit: Unit, engine: str, log: Callable[[str], None]) -> None:
        """Publish as this node; engine: its name for the devices' attribute."""
        self._api = api
        self._node = node
        self._unit = unit
        self._engine = engine
        self._log = log
        self._written: ResourceSlice | None = None
        self._told: dict[str, str] = {}
        self._whole = False

    @property
    def name(self) -> str:
        """The name of the ResourceSlice."""
        return f"{self._node}-{DRIVER}"

    def forget(self) -> None:
        """Have the next publish() ask the API server what is there."""
        self._written = None

    def publish(self, health: Sequence[Health]) -> None:
        """Make the ResourceSlice say what is. Raises ApiServerError, GoneError, NoSharingError."""
        node = self._api.node()
        labels = read_labels(node)
        if not labels.shared:
            if not self._whole:
                why = f"{SCHEDULE_LABEL} or {SCHEDULER_LABEL}"
                self._log(f"a label, {why}, leaves the GPUs of this node to others: none is published")
            self._whole = True
            self.withdraw()
            return
        self._whole = False
        by_uuid = {one.card.uuid: one for one in health}
        order = in_order([one.card for one in health], labels.placement)
        more = turns(order, labels.placement)
        wanted = [
            device(card, self._unit, self._engine, by_uuid[card.uuid].taints(), more[card.uuid])
            for card in order
        ]
        self._write(node, wanted, labels.placement)
        self._tell(node, health)

    def withdraw(self) -> None:
        """Remove the ResourceSlice. Raises ApiServerError."""
        self._api.delete_slice(self.name)
        self._written = None

    def _write(self, node: Node, devices: list[Device], placement: str) -> None:
        now = self._written or self._api.slice(self.name)
        if now is not None and _same(now.spec.devices or [], devices):
            self._written = now
            return
        self._written = None
        wanted = self._slice(node, devices, now)
        assert wanted.metadata is not None
        wanted.metadata.labels = {SLICE_PLACEMENT: placement}
        # Tried first: the scheduler would give out whole cards as soon as it saw them.
        if now is None and not _shares(self._api.write_slice(wanted, dry_run=True)):
            raise NoSharingError(NO_SHARING)
        written = self._api.write_slice(wanted)
        if not _shares(written):
            self.withdraw()
            raise NoSharingError(NO_SHARING)
        self._written = written

    def _slice(self, node: Node, devices: list[Device], now: ResourceSlice | None) -> ResourceSlice:
        generation = now.spec.pool.generation + 1 if now is not None else 1
        version = now.metadata.resourceVersion if now is not None and now.metadata is not None else None
        owner = OwnerReference(apiVersion="v1", kind="Node", name=self._node, uid=_uid(node), controller=True)
        return ResourceSlice(
            metadata=ObjectMeta(name=self.name, resourceVersion=version, ownerReferences=[owner]),
            spec=ResourceSliceSpec(
                driver=DRIVER,
                nodeName=self._node,
                pool=ResourcePool(name=self._node, generation=generation, resourceSliceCount=1),
                devices=devices,
            ),
        )

    def _tell(self, node: Node, health: Sequence[Health]) -> None:
        """Write an event of the node for each card whose condition has changed."""
        about = ObjectReference(apiVersion="v1", kind="Node", name=self._node, uid=_uid(node))
        for one in health:
            before = self._told.get(one.card.uuid, "well")
            if one.condition != before:
                reason = "GPUHealthy" if one.condition == "well" else "GPUUnhealthy"
                message = f"GPU {one.card.index} ({one.card.uuid}): {WORDS[one.condition]}"
                try:
                    self._api.event(about, reason, message, warning=one.condition != "well")
                except ApiServerError as error:
                    self._log(str(error))
            self._told[one.card.uuid] = one.condition


def _uid(node: Node) -> str:
    return (node.metadata.uid if node.metadata is not None else None) or ""


def _shares(written: ResourceSlice) -> bool:
    """Tell whether the API server has kept that devices can be shared."""
    return all(one.allowMultipleAllocations for one in written.spec.devices or ())


def _same(found: Sequence[Device], wanted: Sequence[Device]) -> bool:
    return [_plain(one) for one in found] == [_plain(one) for one in wanted]


def _plain(one: Device) -> dict[str, Any]:
    """Return a device without what the API server adds to it."""
    document: dict[str, Any] = one.to_dict()
    for taint in document.get("taints") or ():
        taint.pop("timeAdded", None)
    return document
