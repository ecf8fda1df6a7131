# SPDX-License-Identifier: Apache-2.0
"""Software of this node: the engine, as its tree says, and NVIDIA's driver, as /proc shows it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cgpu.client.cards import Card
from cgpu.client.tree import Tree
from cgpu.errors import CgpuError
from cgpu.files import read_bounded

DRIVER = "/proc/driver/nvidia"
MAX_BYTES = 1 << 16
MAX_CARDS = 64
VERSION = re.compile(r"Kernel Module\s+(?:for \S+\s+)?(\d+(?:\.\d+)+)")
UUID = re.compile(r"^GPU UUID:\s*(GPU-[0-9a-f-]+)\s*$", re.MULTILINE)
BUS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)


@dataclass(frozen=True)
class Versions:
    """Versions in the table's header. None: not known."""

    engine: str | None = None
    """Engine and its version."""
    driver: str | None = None


def engine_of(tree: Tree) -> str | None:
    """Return name and version of the engine. None where they cannot be read."""
    try:
        return tree.read("engine") or None
    except CgpuError:
        return None


def described(
    cards: tuple[Card, ...], engine: str | None, driver: str = DRIVER
) -> tuple[Versions, tuple[Card, ...]]:
    """Return the versions, and the cards with their places on the bus. Simulated cards have neither."""
    buses = _buses(driver)
    found = tuple(replace(card, bus=buses.get(card.stat.uuid)) for card in cards)
    # A node with a driver can have an engine with simulated cards, whose driver is another one.
    version = _version(driver) if any(card.bus for card in found) else None
    return Versions(engine, version), found


def _version(driver: str) -> str | None:
    match = VERSION.search(_text(f"{driver}/version"))
    return match[1] if match else None


def _buses(driver: str) -> Mapping[str, str]:
    """Return the cards' places by their UUIDs, as nvidia-smi writes them."""
    try:
        names = sorted(os.listdir(f"{driver}/gpus"))[:MAX_CARDS]
    except OSError:
        return {}
    found = {}
    for name in names:
        place, uuid = BUS.fullmatch(name), UUID.search(_text(f"{driver}/gpus/{name}/information"))
        if place and uuid:
            domain, bus, device, function = place.groups()
            found[uuid[1]] = f"{domain:0>8}:{bus}:{device}.{function}".upper()
    return found


def _text(path: str) -> str:
    try:
        return read_bounded(path, MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
