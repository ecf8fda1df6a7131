# SPDX-License-Identifier: Apache-2.0
"""The screen of cgpu top: keys, an engine that goes and comes back, hostile names."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable

from cgpu.client.cards import Card, with_utilisation
from cgpu.errors import CgpuError
from cgpu.smi.main import Shot
from cgpu.smi.node import Versions
from cgpu.top.columns import BAR, bar, history
from cgpu.top.screen import Details, Top
from tests.cards import card
from tests.exporter.trees import MIB, slice_line

Act = Callable[[Top, Pilot[None]], Awaitable[None]]
WAIT_S = 30.0
TRAINER, WEB, POD = "a" * 64, "web", "b" * 64
NAMES = {TRAINER: "trainer", WEB: "web", POD: "research/notebook-7f9c4/main"}


class Node:
    """A node: the trainer has a quarter of the card's time, the pod a half; WEB is idle."""

    def __init__(self) -> None:
        self.at = 0.0
        self.down: str | None = None
        self.names = dict(NAMES)
        self.stuck = threading.Event()
        """Cleared, a reading waits, as of an engine that does not answer."""
        self.stuck.set()

    def source(self) -> Iterator[Shot]:
        before = self._cards()
        while True:
            self.stuck.wait()
            if self.down is not None:
                raise CgpuError(self.down)
            after = self._cards()
            yield Shot(with_utilisation(before, after), Versions("cgpud 0.1.0"))
            before = after

    def _cards(self) -> tuple[Card, ...]:
        self.at += 1.0
        ran = round(self.at * 1e9)
        lines = (
            slice_line(TRAINER, memsize=6043 * MIB, used=2417 * MIB, usage=ran // 4, refused_limit=5),
            slice_line(POD, memsize=4000 * MIB, used=3000 * MIB, usage=ran // 2, weight=2),
            slice_line(WEB, memsize=1000 * MIB),
        )
        first = card(*(one for one in lines if one.split()[0][3:] in self.names), at=self.at, usage=ran)
        named = (replace(one, name=self.names[one.stat.id]) for one in first.containers)
        return replace(first, containers=tuple(named)), card(index=1, uuid="GPU-1", at=self.at, mig=1)


def show(act: Act, node: Node | None = None, size: tuple[int, int] = (160, 24)) -> Top:
    """Show a screen, and do something with it. The readings come quickly."""
    app = Top((node or Node()).source, delay=0.1)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: bool(app.rows))
            await act(app, pilot)

    asyncio.run(run())
    return app


async def until(pilot: Pilot[None], true: Callable[[], bool]) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + WAIT_S
    while not true():
        assert time.monotonic() < deadline, text(pilot.app)
        await pilot.pause(0.02)


def text(app: object) -> str:
    assert isinstance(app, Top)
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in strips)


def ids(app: Top) -> list[str]:
    return [row.stat.id for row in app.rows]


def chosen(app: Top) -> str:
    return app.rows[app.query_one("#slices", DataTable).cursor_row].stat.id


def test_figures() -> None:
    """Cards and slices have their figures; a card that is not as it should be says why."""

    async def act(app: Top, pilot: Pilot[None]) -> None:
        words = ("notebook-7f9c4/main", "25%", "40%", "2417MiB", "6043MiB", "MIG", "preemptive")
        await until(pilot, lambda: all(word in text(app) for word in words))
        assert "cgpud 0.1.0  2 GPUs, 3 slices" in text(app)

    show(act, size=(200, 24))


def test_sort() -> None:
    """Keys sort, and the same key again turns the order round; the chosen slice stays chosen."""

    async def act(app: Top, pilot: Pilot[None]) -> None:
        assert ids(app) == [POD, TRAINER, WEB]
        await pilot.press("down")
        assert chosen(app) == TRAINER
        await pilot.press("t")
        assert ids(app) == [WEB, TRAINER, POD]
        await pilot.press("n")
        assert ids(app) == [POD, TRAINER, WEB]
        await pilot.press("n")
        assert ids(app) == [WEB, TRAINER, POD]
        await pilot.press("m")
        assert ids(app) == [POD, TRAINER, WEB]
        assert chosen(app) == TRAINER

    show(act)


def test_filter() -> None:
    """Words of a name or id select slices while they are typed; Esc shows all again."""

    async def act(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"note MAIN", "enter")
        await until(pilot, lambda: ids(app) == [POD])
        assert "filter: note MAIN" in text(app)
        await pilot.press("slash", *"zzz")
        await until(pilot, lambda: "no slice has these words" in text(app))
        assert app.focused is app.query_one("#filter")
        await pilot.press("escape")
        await until(pilot, lambda: len(ids(app)) == 3)
        assert app.focused is app.query_one("#slices")

    show(act)


def test_details() -> None:
    """Enter shows all figures of the chosen slice; Esc goes back, q ends."""

    async def act(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("down", "enter")
        await until(pilot, lambda: isinstance(app.screen, Details))
        await until(pilot, lambda: "memory_peak_bytes" in text(app))
        assert f"id: {TRAINER}" in text(app)
        assert "limit: 5" in text(app)
        await pilot.pause(0.3)  # readings go on
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running)

    assert show(act, size=(120, 60)).return_code == 0


def test_slices_come_and_go() -> None:
    """A slice that has ended is gone, and its history with it."""
    node = Node()

    async def act(app: Top, pilot: Pilot[None]) -> None:
        del node.names[POD]
        await until(pilot, lambda: ids(app) == [TRAINER, WEB])
        node.names.clear()
        await until(pilot, lambda: "No slices found" in text(app))
        assert len(app._times) == 2

    show(act, node)


def test_engine_goes_and_comes_back() -> None:
    """The head says it, nothing old is shown as if it were new, and the view goes on."""
    node = Node()

    async def act(app: Top, pilot: Pilot[None]) -> None:
        node.down = "the engine is not running; start it: systemctl start cgpud"
        await until(pilot, lambda: "start it: systemctl start cgpud" in text(app))
        assert "trainer" not in text(app)
        node.down = None
        await until(pilot, lambda: "trainer" in text(app))
        assert "start it" not in text(app)

    show(act, node)


def test_engine_that_does_not_answer() -> None:
    """The screen answers meanwhile, and ends."""
    node = Node()

    async def act(app: Top, pilot: Pilot[None]) -> None:
        node.stuck.clear()
        await pilot.pause(0.3)
        app._heard = time.monotonic() - 100
        app._draw_head()
        await until(pilot, lambda: "the engine has not answered for 10" in text(app))
        await pilot.press("q")

    began = time.monotonic()
    show(act, node)
    assert time.monotonic() - began < WAIT_S
    node.stuck.set()


@pytest.mark.parametrize("name", ["[/]\x1b[31mred\n", "[@click=app.quit]x[/]"])
def test_hostile_names(name: str) -> None:
    """They are shown as they are, escaped, in the table and in the details."""
    node = Node()
    node.names[TRAINER] = name

    async def act(app: Top, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: ascii(name)[1:-1] in text(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: "name: " in text(app))
        assert "\x1b" not in text(app)
        await pilot.press("escape", "slash", *"[/x]", "enter")
        await until(pilot, lambda: "filter: [/x]" in text(app))

    show(act, node)


def test_small_terminal() -> None:
    """Nothing fails in a window that is too small for all, nor while its size changes."""

    async def act(app: Top, pilot: Pilot[None]) -> None:
        for size in ((20, 5), (1, 1), (300, 80), (60, 10)):
            await pilot.resize_terminal(*size)
            await pilot.pause(0.1)
        await pilot.press("enter")
        await pilot.resize_terminal(10, 3)
        await pilot.pause(0.1)

    show(act)


def test_bars_and_histories() -> None:
    """What is above zero is seen, what is not known is N/A; a history has the latest at the right."""
    assert [bar(share, "").plain for share in (None, 0.0, 0.1, 50.0, 100.0)] == [
        f"{'|' * filled:<{BAR}}{number:>5}"
        for filled, number in ((0, "N/A"), (0, "0%"), (1, "0%"), (BAR // 2, "50%"), (BAR, "100%"))
    ]
    assert history([None, 0.0, 1.0, 50.0, 100.0]).plain.lstrip(" ") == "▁▄█"
