# SPDX-License-Identifier: Apache-2.0
"""Bars, histories and lines: as wide as they have to be, and inert whatever a container is called."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.top import details, draw, layout, plain
from cgpu.top.draw import ASCII, MEANINGS, MEMORY, PROMISED, TIME, UNICODE
from cgpu.top.model import Recorder, View
from cgpu.top.reading import Process

from .nodes import MIB, TRAINER, node

SHARES = st.one_of(st.none(), st.floats(0, 250))
HOSTILE = st.text(max_size=80) | st.sampled_from(
    [
        "[red]x[/red]",
        "[/]",
        "\x1b[31mred\x1b[0m",
        "a\nb",
        "\x9b2J",
        "\u202egpj",
        "[@click=app.quit]x[/]",
        "a/b/c",
    ]
)


def view(name: str | None = None) -> View:
    recorder = Recorder()
    for at in (1.0, 2.0):
        found = node(at)
        first, *others = found.gpus[0].containers
        named = replace(first, name=name or first.name)
        gpus = (replace(found.gpus[0], containers=(named, *others)), found.gpus[1])
        made = recorder.add(replace(found, gpus=gpus))
    return made


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "[        0%]"),
        (0.1, "[|       0%]"),
        (40.0, "[||||   40%]"),
        (100.0, "[||||||100%]"),
        (None, "[       N/A]"),
    ],
)
def test_bar(share: float | None, text: str) -> None:
    """More than nothing is seen, and the figure stands in the bar."""
    assert draw.plain(draw.bar(12, draw.percent(share), (share, "|", TIME))) == text


@given(st.integers(2, 60), st.text("0123456789%", max_size=12), SHARES, SHARES)
def test_bars_are_as_wide_as_asked(columns: int, label: str, one: float | None, two: float | None) -> None:
    """Bars are as wide as asked, whatever the figures are."""
    assert draw.width(draw.bar(columns, label, (one, "|", MEMORY), (two, ":", PROMISED))) == columns


@given(st.lists(SHARES, max_size=30), st.integers(0, 20), st.integers(1, 5))
def test_charts_are_as_large_as_asked(figures: list[float | None], columns: int, rows: int) -> None:
    """And in an ASCII terminal all characters are ASCII."""
    for pen in (UNICODE, ASCII):
        lines = draw.chart(pen, figures, columns, rows, TIME)
        assert [draw.width(line) for line in lines] == [columns] * rows
    assert all(text.isascii() for line in lines for text, _ in line)


def test_chart() -> None:
    """A figure is as high as its part of the rows."""
    lines = [draw.plain(line) for line in draw.chart(UNICODE, [0, 1, 25, 50, 75, 100, None], 7, 2, TIME)]
    assert lines == ["    ▄█", " ▁▄███·"]


@pytest.mark.parametrize(("count", "text"), [(None, "N/A"), (1, "1M"), (200 << 30, "200.0G")])
def test_size(count: int | None, text: str) -> None:
    """One page in use does not show as nothing."""
    assert draw.size(count) == text


@pytest.mark.parametrize("total", [79, 80, 100, 120, 160, 199, 200, 300])
def test_lines_fit(total: int) -> None:
    """Every line has the width of the terminal, or less."""
    shown = view()
    lines = [*layout.cards(shown, total, UNICODE), layout.headings(total, UNICODE, "time")]
    lines += layout.table(shown.slices, total, UNICODE)
    assert {draw.width(line) for line in lines[-4:]} == {draw.width(lines[-1])}
    assert max(map(draw.width, lines)) <= total


def test_pod_counts_for_more_than_its_namespace() -> None:
    """The pod is kept before the namespace where there is no room for all."""
    pod = view().slices[1]
    assert layout.name(pod, 40).rstrip() == "research/notebook-7f9c4/main"
    assert layout.name(pod, 20).rstrip() == "notebook-7f9c4/main"
    assert layout.name(pod, 10) == "notebook-~"


@given(HOSTILE)
def test_names_are_inert(name: str) -> None:
    """Any name of container or process is printable ASCII on one line, each part with a known meaning."""
    shown = view(name)
    trainer = next(one for one in shown.slices if one.container.id == TRAINER)
    processes = (Process(1, MIB, name, name),)
    lines = [*layout.table(shown.slices, 200, ASCII), *layout.table(shown.slices, 80, ASCII)]
    lines += details.of_slice(trainer, shown.cards[0], processes, 120, ASCII)
    for line in lines:
        for text, meaning in line:
            assert text.isascii()
            assert text.isprintable()
            assert meaning in MEANINGS
    printed = plain.text(shown, "12:00:00", by="name", columns=120)
    assert all(line.isascii() and line.isprintable() for line in printed.split("\n"))
    assert len(printed.splitlines()) == 1 + 2 + 1 + 3


def test_details() -> None:
    """Limits, counters, processes."""
    shown = view()
    lines = details.of_slice(
        shown.slices[0], shown.cards[0], (Process(4711, 2000 * MIB, "root", "train"),), 80, ASCII
    )
    text = "\n".join(map(draw.plain, lines))
    for part in (
        "Container  trainer",
        f"Id         {TRAINER}",
        " 40%] 2417 of 6043 MiB, peak 2929 MiB",
        " 25%] limit 50%, throttled 0%",
        "weight 1, policy 1 (preemptive)",
        "memory: limit 0 card 0 unaccounted 0",
        "calls: class 0 control 0 client 0 records 0 call 0",
        "      4711 root           2000 MiB train",
    ):
        assert part in text
    assert max(map(draw.width, lines)) <= 80


def test_plain() -> None:
    """A view as text, from the head to the last slice."""
    text = plain.text(view(), "12:00:00", by="time", filtered="a", columns=80)
    assert (
        text
        == """\
cgpu top 12:00:00 cgpud 0.1.0 2 GPUs, 3 slices
  0 T4       [|||||||||||| 75%]     _* Mem[||||||::::::     ] 5417M/14.8G     --
  1 T4       [              0%]     _  Mem[                 ]    0M/14.8G
GPU NAME                  GPU-UTILv           LIMIT MEMORY      USED ALLOC REFSD
  0 notebook-7f9c4/main   [|||| 50%]       _=   50% [|||||75%] 3000M 4000M     0
  0 trainer               [||   25%]       _:   50% [|||  40%] 2417M 6043M     0
"""
    )


def test_details_fit() -> None:
    """Nothing wraps in 80 columns, also of the largest cards; in 24 lines the first process is seen."""
    shown = view()
    large, card = shown.slices[1], shown.cards[0]
    size = 300_000 * MIB
    large = replace(
        large,
        container=replace(
            large.container, used=size, slice={"memsize": size, "weight": 1}, utilisation=100.0, limit=100.0
        ),
        stat=None if large.stat is None else large.stat._replace(peak=size),
        throttled=100.0,
    )
    lines = details.of_slice(large, card, (Process(4711, size, "root", "train"),), 77, ASCII)
    assert max(map(draw.width, lines)) <= 77
    assert draw.plain(lines[-1]).split()[0] == "4711"
    assert len(lines) <= 24 - len(("head", "footer"))
