# SPDX-License-Identifier: Apache-2.0
"""Rates, histories, order and filter of cgpu top, out of made-up readings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cgpu.top.choose import ORDERS, matches, ordered
from cgpu.top.model import HISTORY, Recorder, View
from cgpu.top.reading import Reading

from .nodes import MIB, POD, SECOND, TRAINER, WEB, container, gpu, node, reading


def after(*readings: Reading) -> View:
    recorder = Recorder()
    return [recorder.add(one) for one in readings][-1]


def times(view: View) -> dict[str, float | None]:
    return {one.container.id: one.container.utilisation for one in view.slices}


def test_figures() -> None:
    """A second apart: rates by slice and card, memory of what a slice may have; one reading has no rates."""
    one = after(node(1.0))
    assert times(one) == {TRAINER: None, POD: None, WEB: None}
    assert [card.utilisation for card in one.cards] == [None, None]
    view = after(node(1.0), node(2.0))
    assert times(view) == {TRAINER: 25.0, POD: 50.0, WEB: 0.0}
    assert [one.memory for one in view.slices] == [pytest.approx(40, abs=0.01), 75.0, 0.0]
    assert [card.utilisation for card in view.cards] == [75.0, 0.0]
    assert [card.used for card in view.cards] == [5417 * MIB, 0]


def test_what_is_not_as_it_should_be() -> None:
    """A card has the conditions that its counters tell."""
    found = node(1.0)
    wrong = replace(found.stats[0], lost=1, undivided=1)
    cards = after(replace(found, stats={**found.stats, 0: wrong})).cards
    assert [card.conditions for card in cards] == [("the driver has lost it", "time is not divided"), ()]


def test_rates_are_of_a_second_at_least() -> None:
    """Readings in quick succession: the engine's counters move in steps, of which rates show nothing."""
    steps = [node(float(at // 8)) for at in range(25)]
    readings = [replace(one, at=at / 8) for at, one in enumerate(steps)]
    for at, one in enumerate(readings):
        slices = tuple(replace(found, read_at=at / 8) for found in one.gpus[0].containers)
        readings[at] = replace(one, gpus=(replace(one.gpus[0], containers=slices), one.gpus[1]))
    recorder = Recorder()
    views = [recorder.add(one) for one in readings]
    shown = {round(view.cards[0].utilisation or 0, 3) for view in views[8:]}
    assert shown == {75.0}


def test_throttled_and_refused() -> None:
    """Counters give the throttled part of the time, and new refusals."""
    before = node(1.0, **{TRAINER: {"throttled": 0, "refused_limit": 3}})
    now = node(3.0, **{TRAINER: {"throttled": SECOND // 2, "refused_limit": 5}})
    trainer = after(before, now).slices[0]
    assert (trainer.throttled, trainer.refused, trainer.refused_now) == (25.0, 5, 2)


def test_counters_that_begin_anew() -> None:
    """Counters that are smaller than before say nothing of the time between."""
    view = after(node(5.0), replace(node(1.0), at=6.0))
    assert times(view)[TRAINER] is None
    assert view.cards[0].utilisation is None


def test_history_has_a_gap_where_there_was_no_engine() -> None:
    """Histories go on when the engine is back, and rates begin anew."""
    recorder = Recorder()
    for at in (1.0, 2.0):
        recorder.add(node(at))
    recorder.miss()
    back = recorder.add(node(4.0))
    assert back.restarted
    assert back.slices[0].times == (None, 25.0, None, None)
    assert not recorder.add(node(5.0)).restarted
    assert recorder.add(node(6.0)).slices[0].times[-1] == 25.0


def test_restart_between_two_readings() -> None:
    """The engine's own counter of starts says it."""
    assert not after(node(1.0), node(2.0)).restarted
    assert after(node(1.0), replace(node(2.0), starts=(1, 0))).restarted
    assert after(node(1.0), replace(node(2.0), starts=(0, 1))).restarted


def test_histories_are_bounded() -> None:
    """A view for days keeps no more than it can show; ended slices are dropped."""
    recorder = Recorder()
    for at in range(HISTORY + 10):
        view = recorder.add(node(float(at)))
    assert len(view.slices[0].times) == HISTORY
    recorder.add(reading(1000.0, gpu(0)))
    assert len(recorder._histories) == 2
    assert len(recorder._before) <= 2


def test_another_container_in_the_same_place() -> None:
    """A container with another id has a history of its own."""
    recorder = Recorder()
    recorder.add(reading(1.0, gpu(0, container(TRAINER, time=SECOND, at=1.0))))
    other = TRAINER[:12] + "d" * 52
    view = recorder.add(reading(2.0, gpu(0, container(other, time=9 * SECOND, at=2.0))))
    assert view.slices[0].times == (None,)


def test_users_who_are_not_root() -> None:
    """Root's published figures are taken as they are; without counters refusals are not known."""
    shown = node(2.0).gpus[0]
    slices = tuple(replace(one, utilisation=12.0) for one in shown.containers)
    part = replace(shown, containers=slices)
    view = after(Reading(1.0, (part,), measured=True))
    assert [one.container.utilisation for one in view.slices] == [12.0] * 3
    assert (view.cards[0].utilisation, view.cards[0].used) == (36.0, 5417 * MIB)
    assert view.slices[0].refused is None
    hidden = after(Reading(1.0, (replace(part, hidden=MIB),), measured=True)).cards[0]
    assert (hidden.utilisation, hidden.used) == (None, None)


def test_engine_that_does_not_measure() -> None:
    """Nothing is known of the time then."""
    readings = []
    for one in (node(1.0), node(2.0)):
        mute = tuple(
            replace(card, scheduling=replace(card.scheduling, usage_from="none")) for card in one.gpus
        )
        readings.append(replace(one, gpus=mute))
    view = after(*readings)
    assert view.cards[0].utilisation is None
    assert times(view)[TRAINER] is None


@pytest.mark.parametrize(
    ("by", "ids"),
    [
        ("time", [POD, TRAINER, WEB]),
        ("memory", [POD, TRAINER, WEB]),
        ("allocated", [TRAINER, POD, WEB]),
        ("name", [POD, TRAINER, WEB]),
        ("gpu", [POD, TRAINER, WEB]),
    ],
)
def test_order(by: str, ids: list[str]) -> None:
    """Figures begin with the largest, words with the first; equals are in the order of their names."""
    slices = after(node(1.0), node(2.0)).slices
    assert [one.container.id for one in ordered(slices, by)] == ids


@pytest.mark.parametrize("by", ORDERS)
def test_unknown_is_last(by: str) -> None:
    """Either way round."""
    slices = after(node(1.0)).slices
    for inverted in (False, True):
        figures = [ORDERS[by].figure(one) for one in ordered(slices, by, inverted=inverted)]
        known = [one for one in figures if one is not None]
        assert figures[: len(known)] == known


def test_filter() -> None:
    """By container, pod, namespace and id; all words have to be there."""
    slices = after(node(1.0)).slices

    def found(words: str) -> list[str]:
        return [one.container.id for one in slices if matches(one, words)]

    assert found("") == [TRAINER, POD, WEB]
    assert found("NOTEBOOK") == found("research") == found("main note") == [POD]
    assert found("aaaa") == [TRAINER]
    assert found("web") == [WEB]
    assert found("main web") == []
