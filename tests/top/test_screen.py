# SPDX-License-Identifier: Apache-2.0
"""The screen of cgpu top: keys, an engine that goes and comes back, colours, hostile names."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest
from textual.pilot import Pilot

from cgpu.top.screen import Choice, Page, Prompt, SortBy, Top

from .nodes import POD, TRAINER, WEB, Node

Act = Callable[[Top, Pilot[None]], Awaitable[None]]
WAIT_S = 30.0


def show(act: Act, read: Node | None = None, size: tuple[int, int] = (80, 24), **options: str) -> Top:
    """Show a screen, and do something with it. The readings come quickly."""
    app = Top(read or Node(), delay=0.2, **options)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            app._sampler.set_delay(0.1)
            await until(pilot, lambda: app.view is not None and app.view.cards[0].utilisation is not None)
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
    return [one.container.id for one in app.rows]


def chosen(app: Top) -> str:
    index = app.screen_stack[0].query_one("#slices", Choice).highlighted
    assert index is not None
    return app.rows[index].container.id


def test_sort() -> None:
    """F6 asks, I turns it round, P and M are for the usual two."""

    async def act(app: Top, pilot: Pilot[None]) -> None:
        assert ids(app) == [POD, TRAINER, WEB]
        await pilot.press("I")
        assert ids(app) == [WEB, TRAINER, POD]
        await pilot.press("f6")
        await until(pilot, lambda: isinstance(app.screen, SortBy))
        await pilot.press("home", "down", "enter")
        await until(pilot, lambda: app._by == "name")
        assert ids(app) == [POD, TRAINER, WEB]
        await pilot.press("M")
        assert "MEMORY▼" in text(app) or "MEMORYv" in text(app)
        await pilot.press("less_than_sign", "escape")
        assert app._by == "memory"

    show(act)


def test_filter_and_search() -> None:
    """F4 shows only what has the words, F3 goes to the first and the next that has them; Esc closes both."""

    async def act(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("f4", *"note")
        await until(pilot, lambda: ids(app) == [POD])
        await pilot.press("enter")
        await until(pilot, lambda: "filter: note" in text(app))
        await pilot.press("backslash", *"zzz")
        await until(pilot, lambda: "no slice whose container's name or id has notezzz" in text(app))
        await pilot.press("escape")
        await until(pilot, lambda: len(ids(app)) == 3)
        await pilot.press("slash", *"e")
        await until(pilot, lambda: chosen(app) == POD)
        await pilot.press("f3")
        await until(pilot, lambda: chosen(app) == TRAINER)
        await pilot.press("enter", "n")
        await until(pilot, lambda: chosen(app) == WEB)
        await pilot.press("f3")
        await until(pilot, lambda: isinstance(app.focused, Prompt))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.focused, Choice))

    show(act)


def test_chosen_slice_stays_chosen() -> None:
    """The chosen slice may move to another line; until a choice, the first line is chosen."""

    async def act(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("I")
        assert chosen(app) == WEB
        await pilot.press("down")
        await until(pilot, lambda: chosen(app) == TRAINER)
        await pilot.press("down")
        await until(pilot, lambda: chosen(app) == POD)
        await pilot.press("I")
        await until(pilot, lambda: ids(app)[0] == POD)
        assert chosen(app) == POD

    show(act)


def test_details() -> None:
    """F5 shows limits, refusals, processes; keys of the table do nothing there; Esc goes back."""
    node = Node()

    async def act(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("down", "f5")
        await until(pilot, lambda: "4711 root" in text(app))
        assert "Container  trainer" in text(app)
        await pilot.press("f4", "d", "f6")
        assert len(app.screen_stack) == 2
        node.gone.add(TRAINER)
        await until(pilot, lambda: "This slice has ended." in text(app))
        await pilot.press("escape")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        await until(pilot, lambda: node.watched[-1] is None)

    show(act, node, size=(100, 40))


def test_help_and_end() -> None:
    """F1 shows the keys, all of them in 24 lines, q leaves; q again ends."""

    async def act(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("question_mark")
        await until(pilot, lambda: "sort by; P by GPU time" in text(app))
        assert "Esc closes what is open." in text(app)
        assert all(len(line) <= 80 for line in text(app).splitlines())
        await pilot.press("q")
        await until(pilot, lambda: len(app.screen_stack) == 1)
        await pilot.press("q")
        await until(pilot, lambda: not app.is_running)

    assert show(act).return_code == 0


def test_delay_and_pause() -> None:
    """+ and - go through usual delays, d asks, and takes no nonsense; Z keeps what is shown, and goes on."""

    async def act(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("Z")
        await until(pilot, lambda: "paused" in text(app))
        kept = app.view
        await pilot.pause(0.2)
        assert app.view is kept
        await pilot.press("Z")
        await until(pilot, lambda: app.view is not kept)
        await pilot.press("plus")
        assert app._delay == 0.5
        await pilot.press("minus", "minus")
        assert app._delay == 0.2
        await pilot.press("d", *"3.5", "enter")
        await until(pilot, lambda: "every 3.5 s" in text(app))
        for wrong in ("0", "nan", "x", "inf"):
            await pilot.press("d", *wrong, "enter")
            assert app._delay == 3.5
        assert not app.query_one("#ask").display

    show(act)


def test_engine_goes_and_comes_back() -> None:
    """The head says it, nothing old is shown as if it were new, and the view goes on."""
    node = Node()

    async def act(app: Top, pilot: Pilot[None]) -> None:
        node.down = "the engine is not running; start it: systemctl start cgpud"
        await until(pilot, lambda: "start it: systemctl start cgpud" in text(app))
        assert "trainer" not in text(app)
        node.down = None
        await until(pilot, lambda: "the engine was started anew at" in text(app))
        assert "trainer" in text(app)
        app._notice_until = 0.0
        node.starts = (1, 0)
        await until(pilot, lambda: app._notice_until > 0)
        assert "start it" not in text(app)

    show(act, node)


def test_engine_that_does_not_answer() -> None:
    """The screen answers meanwhile, and ends."""
    node = Node()

    async def act(app: Top, pilot: Pilot[None]) -> None:
        node.stuck.clear()
        app._heard -= 100
        await pilot.pause(0.1)
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

    async def act(app: Top, pilot: Pilot[None]) -> None:
        await pilot.press("down")
        shown = ascii(name)[1:-1]
        await until(pilot, lambda: shown in text(app))
        await pilot.press("enter")
        await until(pilot, lambda: f"Container  {shown}" in text(app))
        await pilot.press("escape", "f4", *"[/x]", "enter")
        await until(pilot, lambda: "filter: [/x]" in text(app))

    show(act, Node(hostile=name), size=(120, 24))


def test_a_page_that_is_not_there_yet() -> None:
    """A view that comes while a page is being made is drawn once its parts are there."""
    Page("details", lambda _: ()).draw()


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
