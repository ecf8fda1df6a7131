# SPDX-License-Identifier: Apache-2.0
"""A claim's allocation of cards of this node (resource.k8s.io/v1, ResourceClaimStatus)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from lightkube.models.resource_v1 import DeviceAllocationConfiguration, DeviceRequestAllocationResult
from lightkube.resources.resource_v1 import ResourceClaim

from cgpu.errors import CgpuError, show
from cgpu.kubernetes import parameters
from cgpu.kubernetes.names import DRIVER, GATE_OFF, MEMORY, WEIGHT
from cgpu.kubernetes.node.card import Card
from cgpu.kubernetes.node.units import Unit, share_mib
from cgpu.kubernetes.parameters import Parameters
from cgpu.kubernetes.quantity import read_amount
from cgpu.kubernetes.results import results
from cgpu.request.grants import is_share
from cgpu.sizes import MIB
from cgpu.slice import Slice

WITHOUT_SHARES = f"the allocation names no share: {GATE_OFF}"


class NotHereError(CgpuError):
    """The claim has nothing of this node."""


@dataclass(frozen=True, slots=True)
class AllocatedShare:
    """A part of a card that Kubernetes has given to a claim. slice: the values of cgpu.slice.Slice."""

    share: str
    request: str
    device: str
    gpu: str
    slice: tuple[int, ...]


def allocated(
    claim: ResourceClaim, pool: str, cards: Sequence[Card], unit: Unit, *, claim_priority: bool = False
) -> tuple[AllocatedShare, ...]:
    """Return the shares of a claim on this node. Raises CgpuError where there is one that cannot be given.

    claim_priority: the node lets a claim have high priority by what it says itself.
    """
    by_device = {card.device: card for card in cards}
    found = []
    for result in _results(claim, pool):
        said = _said(claim, result.request, claim_priority=claim_priority)
        found.append(_share(result, said, by_device, unit))
    return tuple(found)


def _results(claim: ResourceClaim, pool: str) -> Iterator[DeviceRequestAllocationResult]:
    found = results(claim)
    if found is None:
        raise NotHereError("the claim has no allocation")
    for result in found:
        if result.pool != pool:
            raise NotHereError(f"the claim has a device of {show(result.pool)}, which is not this node")
        yield result


def _share(
    result: DeviceRequestAllocationResult, said: Parameters, cards: Mapping[str, Card], unit: Unit
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
    if said.policy is not None and said.policy != card.policy:
        raise CgpuError(
            f"the claim wants policy {said.policy}, and GPU {card.index} has policy {card.policy}"
        )
    consumed = _consumed(result, MEMORY)
    mib = share_mib(card.mib, int(consumed) // MIB, unit)
    if mib == 0:
        raise CgpuError(f"request {show(result.request)}: memory {consumed}: expected 1Mi or more")
    return AllocatedShare(
        share=result.shareID,
        request=result.request,
        device=result.device,
        gpu=card.uuid,
        slice=Slice(mib * MIB, _weight(result, said.weight), int(said.high_priority or False)).values(),
    )


def _consumed(result: DeviceRequestAllocationResult, capacity: str) -> Decimal:
    text = (result.consumedCapacity or {}).get(capacity)
    if text is None:
        raise CgpuError(f"device {show(result.device)}: the allocation does not say how much {capacity}")
    value = read_amount(text)
    if value is None:
        raise CgpuError(f"device {show(result.device)}: {capacity} {show(text)}: expected an amount")
    return value


def _weight(result: DeviceRequestAllocationResult, most: int | None) -> int:
    """Return the weight that the scheduler has counted, or the class's limit for it."""
    consumed = _consumed(result, WEIGHT)
    if consumed < 1:
        raise CgpuError(f"request {show(result.request)}: weight {consumed}: expected 1 or more")
    return int(consumed) if most is None else min(int(consumed), most)


def _said(claim: ResourceClaim, request: str, *, claim_priority: bool) -> Parameters:
    """Return what is said of a request, that of the device class before that of the claim."""
    of_class = _parameters(claim, request, of_class=True)
    of_claim = _parameters(claim, request, of_class=False)
    if of_claim.high_priority and of_class.high_priority is None and not claim_priority:
        raise CgpuError(
            f"request {show(request)}: highPriority: expected a DeviceClass that says so, as "
            "allow_claim_priority is false on this node"
        )
    return of_class.over(of_claim)


def _parameters(claim: ResourceClaim, request: str, *, of_class: bool) -> Parameters:
    found = Parameters()
    for configuration in _configurations(claim):
        # A configuration that is not marked FromClass counts as the claim's.
        if (configuration.source == "FromClass") != of_class:
            continue
        # A request that has alternatives is named by both: main/alternative.
        if configuration.requests and not {request, request.partition("/")[0]} & set(configuration.requests):
            continue
        opaque = configuration.opaque
        if opaque is not None and opaque.driver == DRIVER:
            found = parameters.parse(opaque.parameters, of_class=of_class).over(found)
    return found


def _configurations(claim: ResourceClaim) -> Sequence[DeviceAllocationConfiguration]:
    allocation = claim.status.allocation if claim.status is not None else None
    devices = allocation.devices if allocation is not None else None
    return (devices.config if devices is not None else None) or ()
