# SPDX-License-Identifier: Apache-2.0
"""Health of each published card, and Kubernetes' words for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lightkube.models.resource_v1 import DeviceTaint

from cgpu.client.tree import EngineDownError, Tree
from cgpu.kubernetes.names import TAINT_ENGINE, TAINT_FALLEN, TAINT_LOST
from cgpu.kubernetes.node.card import Card, cards

Condition = Literal["well", "engine-down", "lost", "fallen"]
TAINTS = {"engine-down": TAINT_ENGINE, "lost": TAINT_LOST, "fallen": TAINT_FALLEN}
WORDS = {
    "well": "the GPU can be sliced",
    "engine-down": "the engine that enforces slices is not running on the node: cgpu status",
    "lost": "the engine no longer has this GPU, or it is in MIG mode: cgpu doctor",
    "fallen": "the driver no longer reaches the GPU, which has fallen off the bus: "
    "see the lines of NVRM in dmesg on the node",
}


@dataclass(frozen=True, slots=True)
class Health:
    """A card and how it is. One that is not well keeps its last facts."""

    card: Card
    condition: Condition

    def taints(self) -> list[DeviceTaint]:
        """Return what keeps new pods away."""
        if self.condition == "well":
            return []
        return [DeviceTaint(key=TAINTS[self.condition], effect="NoSchedule")]


def observe(tree: Tree, before: Sequence[Health] | None) -> tuple[Health, ...]:
    """Return all cards that there are or were. Raises CgpuError when the tree cannot be read.

    before: the last result; None: nothing yet, and then an engine that is down is an error, too.
    """
    try:
        now = {card.uuid: card for card in cards(tree)}
    except EngineDownError:
        if before is None:
            raise
        return tuple(replace(one, condition="engine-down") for one in before)
    return tuple(_judged(now, before or ()))


def _judged(now: dict[str, Card], before: Sequence[Health]) -> Iterator[Health]:
    known = {one.card.uuid for one in before}
    for one in before:
        card = now.get(one.card.uuid)
        yield Health(one.card, "lost") if card is None or card.mig else _of(card)
    for uuid, card in now.items():
        # A card in MIG mode has never been one that can be sliced.
        if uuid not in known and not card.mig:
            yield _of(card)


def _of(card: Card) -> Health:
    return Health(card, "fallen" if card.lost else "well")
