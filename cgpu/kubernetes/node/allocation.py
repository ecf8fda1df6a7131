# SPDX-License-Identifier: Apache-2.0
"""What a claim's allocation gives of the cards of this node (resource.k8s.io/v1, ResourceClaimStatus)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from lightkube.models.resource_v1 import DeviceAllocationConfiguration, DeviceRequestAllocationResult
from lightkube.resources.resource_v1 import ResourceClaim
from lightkube.utils.quantity import parse_quantity

from cgpu.errors import CgpuError, show
from cgpu.kubernetes import parameters
from cgpu.kubernetes.names import DRIVER, GATE_OFF, MEMORY, WEIGHT
from cgpu.kubernetes.node.card import Card
from cgpu.kubernetes.node.units import Unit, share_mib
from cgpu.kubernetes.parameters import Parameters
from cgpu.kubernetes.results import results
from cgpu.request.grants import is_share
from cgpu.sizes import MIB

WITHOUT_SHARES = f"the allocation names no share: {GATE_OFF}"


class NotHereError(CgpuError):
    """The claim has nothing of this node."""


@dataclass(frozen=True, slots=True)
class AllocatedShare:
    """A part of a card that Kubernetes has given to a claim. bytes: of the card's memory."""

    share: str
    request: str
    device: str
    gpu: str
    bytes: int
    weight: int
    highprio: int


def allocated(
    claim: ResourceClaim, pool: str, cards: Sequence[Card], unit: Unit
) -> tuple[AllocatedShare, ...]:
    """Return the shares of a claim on this node. Raises CgpuError where there is one that cannot be given."""
    by_device = {card.device: card for card in cards}
    return tuple(_share(claim, result, by_device, unit) for result in _results(claim, pool))


def _results(claim: ResourceClaim, pool: str) -> Iterator[DeviceRequestAllocationResult]:
    found = results(claim)
    if found is None:
        raise NotHereError("the claim has no allocation")
    for result in found:
        if result.pool != pool:
            raise NotHereError(f"the claim has a device of {show(result.pool)}, which is not this node")
        yield result


def _share(
    claim: ResourceClaim, result: DeviceRequestAllocationResult, cards: Mapping[str, Card], unit: Unit
) -> AllocatedShare:
    if result.adminAccess:
        raise CgpuError(f"request {show(result.request)}: adminAccess: expected a request without it")
    if result.shareID is None:
        raise CgpuError(WITHOUT_SHARES)
    if not is_share(result.shareID):
        raise CgpuError(f"share {show(result.shareID)}: expected a UUID in lower case")
    card = cards.get(result.device)
    if card is None:
        raise CgpuError(f"device {show(result.device)} is not on this node; its cards: cgpu-smi")
    said = _parameters(claim, result.request)
    if said.policy is not None and said.policy != card.policy:
        raise CgpuError(
            f"the claim wants policy {said.policy}, and GPU {card.index} has policy {card.policy}"
        )
    consumed = _consumed(result, MEMORY)
    mib = share_mib(card.mib, int(consumed) // MIB, unit)
    if mib == 0:
        raise CgpuError(f"request {show(result.request)}: memory {consumed}: expected 1Mi or more")
    weight = said.weight if said.weight is not None else int(_consumed(result, WEIGHT))
    return AllocatedShare(
        share=result.shareID,
        request=result.request,
        device=result.device,
        gpu=card.uuid,
        bytes=mib * MIB,
        weight=weight,
        highprio=int(said.high_priority or False),
    )


def _consumed(result: DeviceRequestAllocationResult, capacity: str) -> Decimal:
    text = (result.consumedCapacity or {}).get(capacity)
    if text is None:
        raise CgpuError(f"device {show(result.device)}: the allocation does not say how much {capacity}")
    try:
        value = parse_quantity(text)
    except ValueError:
        value = None
    if value is None or not 0 <= value < 1 << 63:
        raise CgpuError(f"device {show(result.device)}: {capacity} {show(text)}: expected an amount")
    return value


def _parameters(claim: ResourceClaim, request: str) -> Parameters:
    """Return what is said of a request, that of the claim before that of the device class."""
    found = Parameters()
    for configuration in _configurations(claim):
        # A request that has alternatives is named by both: main/alternative.
        if configuration.requests and not {request, request.partition("/")[0]} & set(configuration.requests):
            continue
        opaque = configuration.opaque
        if opaque is not None and opaque.driver == DRIVER:
            found = parameters.parse(opaque.parameters).over(found)
    return found


def _configurations(claim: ResourceClaim) -> list[DeviceAllocationConfiguration]:
    allocation = claim.status.allocation if claim.status is not None else None
    devices = allocation.devices if allocation is not None else None
    listed = (devices.config if devices is not None else None) or []
    return sorted(listed, key=lambda one: one.source != "FromClass")
