# SPDX-License-Identifier: Apache-2.0
"""Memory that a card has for Kubernetes, and the size of a part on the card."""

from __future__ import annotations

from typing import Literal, get_args

MIB_OF_GIB = 1024
# card: the size that a card's maker names, in whole GiB, of which the card has a little less; exact: MiB.
Unit = Literal["card", "exact"]
UNITS: tuple[Unit, ...] = get_args(Unit)


def published_mib(card_mib: int, unit: Unit) -> int:
    """Return the MiB that a card of so many MiB offers: 15360, which is 15Gi, for a T4 of 15109."""
    return card_mib if unit == "exact" else -(-card_mib // MIB_OF_GIB) * MIB_OF_GIB


def share_mib(card_mib: int, consumed_mib: int, unit: Unit) -> int:
    """Return the MiB of a card that so many published MiB stand for; rounded down, so that all fit."""
    return card_mib * consumed_mib // published_mib(card_mib, unit)
