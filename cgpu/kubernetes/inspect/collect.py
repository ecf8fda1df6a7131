# SPDX-License-Identifier: Apache-2.0
"""GPUs of a cluster and what is given out of them, from its ResourceSlices and ResourceClaims alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lightkube import Client
from lightkube.resources.core_v1 import Node
from lightkube.resources.resource_v1 import ResourceClaim, ResourceSlice

from cgpu.kubernetes.inspect.use import GpuUse, ShareUse, Use
from cgpu.kubernetes.labels import NOT_ISOLATED, NodeLabels, read_labels
from cgpu.kubernetes.names import DRIVER, MEMORY
from cgpu.kubernetes.quantity import read_amount
from cgpu.kubernetes.results import results
from cgpu.sizes import MIB

CHUNK = 500
SLICES = "cgpu"  # mode of a node


@dataclass(frozen=True, slots=True)
class GivenShare:
    """A part of a GPU. mib: of what the node publishes.

    of_card and used: MiB of the card itself, None: not known.
    """

    namespace: str
    claim: str
    pods: tuple[str, ...]
    share: str
    mib: int
    of_card: int | None = None
    used: int | None = None


@dataclass(frozen=True, slots=True)
class GpuState:
    """A GPU of a node. taints: keys of what keeps new pods away.

    used: MiB that its slices use, those of containers beside Kubernetes too; None: not known.
    """

    device: str
    index: int
    product: str
    mib: int
    taints: tuple[str, ...]
    shares: tuple[GivenShare, ...]
    used: int | None = None

    @property
    def allocated(self) -> int:
        """MiB that are given out."""
        return sum(share.mib for share in self.shares)


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node with GPUs, in the order of their indexes.

    mode: cgpu: Kubernetes' scheduler gives out slices; share: it gives out parts that nothing enforces; else
    the system whose scheduler decides for its pods.
    """

    name: str
    address: str
    gpus: tuple[GpuState, ...]
    mode: str = SLICES

    @property
    def is_published(self) -> bool:
        """Whether Kubernetes' scheduler gives out its GPUs; else its agent alone knows them."""
        return self.mode in (SLICES, NOT_ISOLATED)

    @property
    def allocated(self) -> int:
        """MiB that are given out."""
        return sum(gpu.allocated for gpu in self.gpus)

    @property
    def total(self) -> int:
        """MiB that there are."""
        return sum(gpu.mib for gpu in self.gpus)

    @property
    def used(self) -> int | None:
        """MiB that are used, None where that of one GPU is not known."""
        used = [gpu.used for gpu in self.gpus if gpu.used is not None]
        return sum(used) if len(used) == len(self.gpus) else None


def collect(client: Client, node: str | None = None) -> tuple[NodeState, ...]:
    """Return the nodes of a cluster, or the one of a name. Raises lightkube's and httpx2's errors."""
    slices = client.list(ResourceSlice, fields={"spec.driver": DRIVER}, chunk_size=CHUNK)
    claims = client.list(ResourceClaim, namespace="*", chunk_size=CHUNK)
    nodes = client.list(Node, chunk_size=CHUNK)
    return states(slices, claims, nodes, node)


def states(
    slices: Iterable[ResourceSlice],
    claims: Iterable[ResourceClaim],
    nodes: Iterable[Node],
    only: str | None = None,
) -> tuple[NodeState, ...]:
    """Put the objects together; only: the name of a node."""
    given = _given(claims)
    by_name = {_name(node): node for node in nodes}
    # The agent alone knows the GPUs of a node for which another system decides.
    labels = {name: read_labels(node) for name, node in by_name.items()}
    others = {name for name, said in labels.items() if said.scheduler and only in (None, name)}
    found: dict[str, list[GpuState]] = defaultdict(list, {name: [] for name in others})
    for one in slices:
        name = one.spec.nodeName
        if name is not None and only in (None, name) and name not in others:
            found[name].extend(_gpus(one, given))
    return tuple(
        NodeState(name, _address(by_name.get(name)), _sorted(gpus), _mode(labels.get(name)))
        for name, gpus in sorted(found.items())
    )


def with_use(nodes: Iterable[NodeState], use: Use) -> tuple[NodeState, ...]:
    """Return the nodes with what their agents have said."""
    return tuple(replace(node, gpus=_with_use(node, use.get(node.name, {}))) for node in nodes)


def _with_use(node: NodeState, use: Mapping[str, GpuUse]) -> tuple[GpuState, ...]:
    if node.is_published:
        return tuple(_gpu_with_use(gpu, use.get(gpu.device)) for gpu in node.gpus)
    return _sorted(
        GpuState(device, one.index, one.product, one.total // MIB, (), _taken(one), _up(one.used))
        for device, one in use.items()
    )


def _taken(gpu: GpuUse) -> tuple[GivenShare, ...]:
    """Return the parts of a GPU for which another system has decided; each is that of a pod."""
    return tuple(
        GivenShare(
            one.namespace, "", (one.name or share,), share, one.limit // MIB, one.limit // MIB, _up(one.used)
        )
        for share, one in gpu.shares.items()
    )


def _sorted(gpus: Iterable[GpuState]) -> tuple[GpuState, ...]:
    return tuple(sorted(gpus, key=lambda gpu: gpu.index))


def _gpu_with_use(gpu: GpuState, use: GpuUse | None) -> GpuState:
    if use is None:
        return gpu
    shares = tuple(_share_with_use(share, use.shares.get(share.share)) for share in gpu.shares)
    return replace(gpu, used=_up(use.used), shares=shares)


def _share_with_use(share: GivenShare, use: ShareUse | None) -> GivenShare:
    return replace(share, of_card=use.limit // MIB, used=_up(use.used)) if use is not None else share


def _up(size: int | None) -> int | None:
    """Return bytes as MiB, rounded up: a used byte is not shown as nothing."""
    return None if size is None else -(-size // MIB)


def _given(claims: Iterable[ResourceClaim]) -> Mapping[tuple[str, str], list[GivenShare]]:
    """Return what is given out, by pool and device."""
    found: dict[tuple[str, str], list[GivenShare]] = defaultdict(list)
    for claim in claims:
        if claim.status is None or claim.metadata is None:
            continue
        pods = tuple(one.name for one in claim.status.reservedFor or () if one.resource == "pods")
        for result in results(claim) or ():
            share = GivenShare(
                claim.metadata.namespace or "",
                claim.metadata.name or "",
                pods,
                result.shareID or "",
                _mib((result.consumedCapacity or {}).get(MEMORY)),
            )
            found[(result.pool, result.device)].append(share)
    return found


def _gpus(one: ResourceSlice, given: Mapping[tuple[str, str], list[GivenShare]]) -> Iterable[GpuState]:
    for device in one.spec.devices or ():
        attributes = device.attributes or {}
        yield GpuState(
            device.name,
            int(attributes.get("index", {}).get("int", 0)),
            str(attributes.get("productName", {}).get("string", "")),
            _mib((device.capacity or {}).get(MEMORY, {}).get("value")),
            tuple(taint.key for taint in device.taints or ()),
            tuple(given.get((one.spec.pool.name, device.name), ())),
        )


def _mib(text: str | None) -> int:
    return int(read_amount(text) or 0) // MIB


def _name(node: Node) -> str:
    return (node.metadata.name if node.metadata is not None else None) or ""


def _mode(labels: NodeLabels | None) -> str:
    if labels is None or (labels.isolated and not labels.scheduler):
        return SLICES
    return labels.scheduler or NOT_ISOLATED


def _address(node: Node | None) -> str:
    listed = (node.status.addresses if node is not None and node.status is not None else None) or ()
    return next((one.address for one in listed if one.type == "InternalIP"), "-")
