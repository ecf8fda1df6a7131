# SPDX-License-Identifier: Apache-2.0
"""The card that each of several pods prefers which are made at once."""

from __future__ import annotations

from typing import Any

import pytest

from cgpu.kubernetes.admission.rewrite import Settings, rewrite
from cgpu.kubernetes.admission.turns import OWNERS, POLICY, VARIANTS, Turns, _card, expression
from tests.kubernetes.admission.published import Published
from tests.kubernetes.admission.test_rewrite import container, patched, pod

CARDS = Published(15360)
LIMITS = {"aliyun.com/gpu-mem": 3}


def owned(uid: str, **annotations: str) -> dict[str, Any]:
    return {"ownerReferences": [{"uid": uid}], "annotations": annotations}


@pytest.mark.parametrize("nodes", [1, 2, 4])
@pytest.mark.parametrize("cards", [2, 4])
def test_each_card_once(nodes: int, cards: int) -> None:
    """Pods that a scheduler puts on nodes in turn have a card each, on each node, as far as turns go."""
    turns = Turns()
    taken = [
        turns.take(owned("a"), "team", cards) for _ in range(min(nodes * cards, VARIANTS, cards * cards))
    ]
    for node in range(nodes):
        here = [_card(turn, cards) for turn in taken[node::nodes]]
        assert len(set(here)) == len(here)


def test_turns_are_those_of_an_owner() -> None:
    """Pods of two owners that come in between each other do not take each other's turns; few are kept."""
    turns = Turns()
    found = [turns.take(owned(uid), "team", 4) for uid in ("a", "b", "a", "b")]
    assert found == [0, 1, 1, 2]
    for number in range(OWNERS + 10):
        turns.take(owned(f"x{number}"), "team", 4)
    assert len(turns._next) == OWNERS
    assert Turns().take({}, "team", 4) == 0


def test_who_has_turns() -> None:
    """Where no node spreads, pods have none, so that their templates stay few; HAMi's annotation decides."""
    turns = Turns()
    assert turns.preferred(owned("a"), "team", 0) == ""
    assert turns.preferred(owned("a", **{POLICY: "binpack"}), "team", 4) == ""
    assert turns.preferred(owned("a"), "team", 4) == expression(0, anywhere=False)
    assert turns.preferred(owned("a", **{POLICY: "spread"}), "team", 0) == expression(1, anywhere=True)


def options(limits: dict[str, Any], sizes: tuple[int, ...] = (15360,)) -> list[tuple[str, int]]:
    """Return the alternatives of a pod that prefers a card: their names and how many selectors they have."""
    found = rewrite(pod([container(limits=limits)]), Published(*sizes), prefer=lambda: "e")
    (described,) = found.templates.values()
    (asked,) = described["spec"]["devices"]["requests"]
    return [(one["name"], len(one.get("selectors", ()))) for one in asked.get("firstAvailable", ())]


def test_alternatives() -> None:
    """The preferred card comes first, then any; many sizes, or several GPUs, leave no room for it."""
    assert options(LIMITS) == [("first-any", 1), ("any", 0)]
    percentage = {"nvidia.com/gpumem-percentage": 50}
    assert options(percentage, (1024, 2048)) == [
        ("first-of-1024mi", 2),
        ("first-of-2048mi", 2),
        ("of-1024mi", 1),
        ("of-2048mi", 1),
    ]
    assert len(options(percentage, tuple(range(1024, 1029)))) == 5
    assert options({"nvidia.com/gpumem": 1, "nvidia.com/gpu": 2}) == []


def test_a_second_call_keeps_the_turn() -> None:
    """A pod has one turn, whatever its containers are, and a later call for it takes no other one."""
    for settings in (Settings(), Settings(keeps_names=True)):
        taken: list[str] = []

        def prefer(taken: list[str] = taken) -> str:
            taken.append(expression(len(taken), anywhere=False))
            return taken[-1]

        document = pod([container(limits=LIMITS), container("two", limits=LIMITS)])
        found = rewrite(document, CARDS, settings, prefer)
        assert (len(found.templates), len(taken)) == (1, 1)
        assert rewrite(patched(document, found.patch), CARDS, settings, prefer).patch == []
        assert len(taken) == 1
