# SPDX-License-Identifier: Apache-2.0
"""The cards as devices of a ResourceSlice, from which kube-scheduler gives out parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lightkube.models.resource_v1 import Device, DeviceTaint

from cgpu.kubernetes.labels import Placement
from cgpu.kubernetes.names import (
    MAX_TURNS,
    MEMORY,
    PLACEMENT,
    TURN,
    TURNS,
    WEIGHT,
)
from cgpu.kubernetes.node.card import Card
from cgpu.kubernetes.node.units import Unit, published_mib


def in_order(cards: Sequence[Card], placement: Placement) -> list[Card]:
    """Return the cards in the order in which the scheduler takes them: it takes the first that fits."""
    if placement == "binpack":
        return sorted(cards, key=lambda card: card.index)
    return sorted(cards, key=lambda card: (card.reserved / (card.mib or 1), card.index))


def quantity(mib: int) -> str:
    """Return so many MiB in the form to which the API server brings an amount."""
    for suffix in ("Mi", "Gi", "Ti"):
        if mib % 1024 or suffix == "Ti":
            break
        mib //= 1024
    return f"{mib}{suffix}"


def turns(cards: Sequence[Card], placement: Placement) -> dict[str, dict[str, Any]]:
    """Return, by UUID, the attributes by which pods that are made at once choose different cards."""
    found: dict[str, dict[str, Any]] = {}
    for turn, card in enumerate(sorted(cards, key=lambda card: card.index)):
        found[card.uuid] = {PLACEMENT: {"string": placement}}
        if 2 <= len(cards) <= MAX_TURNS:
            found[card.uuid] |= {TURN: {"int": turn}, TURNS: {"int": len(cards)}}
    return found


def device(
    card: Card,
    unit: Unit,
    engine: str,
    taints: Sequence[DeviceTaint],
    more: Mapping[str, dict[str, Any]] | None = None,
) -> Device:
    """Return the device of a card; more: its attributes beside those of the card.

    A claim that says no size takes the whole memory.
    """
    memory = quantity(published_mib(card.mib, unit))
    return Device(
        name=card.device,
        allowMultipleAllocations=True,
        attributes={
            "uuid": {"string": card.uuid},
            "index": {"int": card.index},
            "productName": {"string": card.product[:64]},
            "engine": {"string": engine},
            **(more or {}),
        },
        capacity={
            MEMORY: _capacity(memory, default=memory, least="1Mi"),
            # The weight bounds the number of claims, too: each has at least 1. Each capacity costs time.
            WEIGHT: _capacity(str(card.max_inst), default="1", least="1"),
        },
        taints=list(taints) or None,
    )


def _capacity(value: str, *, default: str, least: str) -> dict[str, Any]:
    """Return a DeviceCapacity as a table: lightkube has no types below `capacity` and `attributes`."""
    allowed = {"min": least, "step": least}
    return {"value": value, "requestPolicy": {"default": default, "validRange": allowed}}
