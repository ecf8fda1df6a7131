# SPDX-License-Identifier: Apache-2.0
"""Pods that are made at once on different GPUs of a node: each prefers another card.

The scheduler takes the first card that fits, in the order of the node's ResourceSlice, which changes only
after it has placed a pod. So each template of a shape has one of a few turns, by which a node that spreads
names a card; where that card has too little left, any other is as good.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from cgpu.kubernetes.names import DRIVER, MAX_TURNS, PLACEMENT, TURN, TURNS

# HAMi's annotation of a pod counts more than the label of a node.
POLICY = "hami.io/gpu-scheduler-policy"
VARIANTS = 16
USUAL_CARDS = 4  # of a node, where no node is known that spreads
OWNERS = 4096
ATTRIBUTES = f'device.attributes["{DRIVER}"]'


class Turns:
    """The next turn for each owner of pods."""

    def __init__(self) -> None:
        """Begin; each owner begins at another turn."""
        self._lock = threading.Lock()
        self._next: OrderedDict[str, int] = OrderedDict()
        self._begin = itertools.count()

    def preferred(self, metadata: Mapping[str, Any], namespace: str, spread: int) -> str:
        """Return the expression for the card that a pod prefers, "" for none.

        spread: the number of cards of a node that spreads, 0 where there is none.
        """
        policy = (metadata.get("annotations") or {}).get(POLICY)
        if policy == "binpack" or not (spread or policy == "spread"):
            return ""
        turn = self.take(metadata, namespace, spread or USUAL_CARDS)
        return expression(turn, anywhere=policy == "spread")

    def take(self, metadata: Mapping[str, Any], namespace: str, cards: int) -> int:
        """Return the turn of a pod. cards: of a node, at most: so many turns are of use."""
        owners = metadata.get("ownerReferences") or [{}]
        owner = str(owners[0].get("uid") or namespace)
        with self._lock:
            turn = self._next.pop(owner, None)
            turn = next(self._begin) if turn is None else turn
            self._next[owner] = turn + 1
            while len(self._next) > OWNERS:
                self._next.popitem(last=False)
        return turn % min(VARIANTS, cards * cards)


def expression(turn: int, *, anywhere: bool) -> str:
    """Return the expression (CEL) for the card of a turn. anywhere: also on nodes that fill their cards."""
    cards = [_card(turn, number) for number in range(MAX_TURNS + 1)]
    there = f"{ATTRIBUTES}.{TURN} == {cards}[{ATTRIBUTES}.{TURNS}]"
    fills = "" if anywhere else f' || {ATTRIBUTES}.{PLACEMENT} != "spread"'
    return f'!("{TURNS}" in {ATTRIBUTES}){fills} || {there}'


@functools.cache
def expressions() -> frozenset[str]:
    """Return all that a pod may have been given, none among them."""
    made = (expression(turn, anywhere=where) for turn in range(VARIANTS) for where in (False, True))
    return frozenset(("", *made))


def _card(turn: int, cards: int) -> int:
    """Return the card of so many that a turn names: the sum of its digits to that base.

    Not the turn's last digit: where a scheduler takes two nodes of two cards in turn, as it does, one node
    would have all even turns.
    """
    if cards < 2:
        return 0
    total = 0
    while turn:
        turn, digit = divmod(turn, cards)
        total += digit
    return total % cards
