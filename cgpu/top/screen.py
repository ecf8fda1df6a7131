# SPDX-License-Identifier: Apache-2.0
"""
The screen of cgpu top, by Textual: a table of cards, and one of slices.

The screen has the terminal's own sixteen colours and background: dark in a dark terminal, light in a light
one, and the same over ssh.
"""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import ClassVar

import yaml
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Input, Static

from cgpu.errors import CgpuError, one_line
from cgpu.smi import render
from cgpu.smi.main import Shot
from cgpu.smi.table import without
from cgpu.top import columns
from cgpu.top.columns import CARDS, HISTORY, SLICES, CardRow, Column, Row, View

STALLED_S = 5.0
PARTS = "#head, #state, #cards, #slices"
Key = tuple[str, str]
"""A card's UUID, and the id of a container on it, empty for the card."""


class Sampled(Message):
    """A reading, or why there is none."""

    def __init__(self, found: Shot | CgpuError) -> None:
        """Keep it."""
        super().__init__()
        self.found = found


class Details(Screen[None]):
    """All figures of one slice and its card, as `cgpu-smi --json` names them."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "app.pop_screen", "Back")]

    def __init__(self, row: Row) -> None:
        """Show a slice as it is at the moment."""
        super().__init__()
        card = {**render.card_object(row.card), "containers": len(row.card.containers)}
        found = {"container": render.container_object(row.one), "gpu": card}
        self._text = yaml.safe_dump(found, sort_keys=False)

    def compose(self) -> ComposeResult:
        """Make the parts."""
        with VerticalScroll():
            yield Static(self._text, markup=False)
        yield Footer()


class Top(App[None]):
    """Cards, and the table of slices."""

    TITLE = "cgpu top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #head { text-style: reverse; height: 1; }
    #state { text-style: bold; color: ansi_bright_red; height: auto; display: none; }
    #cards { height: auto; max-height: 40%; margin: 1 0; }
    #slices { height: 1fr; }
    DataTable { background: ansi_default; scrollbar-size: 1 1; }
    DataTable > .datatable--header { background: ansi_green; color: ansi_black; text-style: none; }
    DataTable > .datatable--cursor { background: ansi_cyan; color: ansi_black; text-style: none; }
    #filter { display: none; height: 1; border: none; padding: 0; background: ansi_default; }
    Footer { background: ansi_default; }
    FooterKey .footer-key--key { color: ansi_default; text-style: none; padding: 0 0 0 1; }
    FooterKey .footer-key--description { color: ansi_black; background: ansi_cyan; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("t", "by('GPU-UTIL')", "By time"),
        Binding("m", "by('MEMORY')", "By memory"),
        Binding("n", "by('NAME')", "By name"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("d", "details", "Details"),
        Binding("escape", "close", show=False),
        Binding("q,f10", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(self, source: Callable[[], Iterator[Shot]], delay: float) -> None:
        """Take what gives readings whenever asked, and the seconds between two of them."""
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.rows: list[Row] = []
        self._source = source
        self._delay = delay
        self._shot: Shot | None = None
        self._away = ""
        self._heard = time.monotonic()
        self._times: dict[Key, deque[float | None]] = {}
        self._by, self._inverted, self._filter = "GPU-UTIL", False, ""

    def compose(self) -> ComposeResult:
        """Make the parts."""
        yield Static(id="head", markup=False)
        yield Static(id="state", markup=False)
        yield DataTable(id="cards", show_cursor=False)
        yield DataTable(id="slices", cursor_type="row")
        yield Input(id="filter", placeholder="parts of a container's name or id; nothing shows all")
        yield Footer()

    def on_mount(self) -> None:
        """Begin to read."""
        _have_columns(self._table("#cards"), CARDS)
        _have_columns(self._table("#slices"), SLICES)
        self._table("#slices").focus()
        self.set_interval(1.0, self._draw_head)
        # Not a worker of Textual's, which waits for it at the end: an engine may not answer.
        threading.Thread(target=self._read, daemon=True).start()

    def _table(self, which: str) -> DataTable[Text]:
        return self.screen_stack[0].query_one(which, DataTable)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:  # noqa: ARG002 (Textual calls it)
        """Allow what concerns the tables where these are what is seen."""
        return len(self.screen_stack) < 2 or action not in ("by", "filter", "details")

    # Reading

    def _read(self) -> None:
        while True:
            try:
                for shot in self._source():
                    self.post_message(Sampled(shot))
                    time.sleep(self._delay)
            except CgpuError as error:
                self.post_message(Sampled(error))
                time.sleep(self._delay)

    def on_sampled(self, message: Sampled) -> None:
        """Take a reading, or that there is no engine."""
        self._heard = time.monotonic()
        if isinstance(message.found, CgpuError):
            self._shot, self._away = None, str(message.found)
        else:
            self._shot, self._away = message.found, ""
            self._remember(message.found)
        self._draw()

    def _remember(self, shot: Shot) -> None:
        """Add to the histories; those of what is gone are dropped."""
        now: dict[Key, float | None] = {}
        for card in shot.cards:
            now[card.stat.uuid, ""] = card.utilisation
            now |= {(card.stat.uuid, one.stat.id): one.utilisation for one in card.containers}
        self._times = {key: self._times.get(key, deque(maxlen=HISTORY)) for key in now}
        for key, share in now.items():
            self._times[key].append(share)

    # Drawing

    def _is_there(self) -> bool:
        """Return whether the parts are there: no more at the end, when a reading may still come."""
        return bool(self.screen_stack) and len(self.screen_stack[0].query(PARTS)) == PARTS.count("#")

    def _draw(self) -> None:
        if not self._is_there():
            return
        cards = self._shot.cards if self._shot else ()
        of_cards = [CardRow(card, self._history(card.stat.uuid)) for card in cards]
        _fill(self._table("#cards"), CARDS, {row.card.stat.uuid: row for row in of_cards})
        found = [(card, one) for card in cards for one in card.containers]
        rows = [Row(card, one, self._history(card.stat.uuid, one.stat.id)) for card, one in found]
        shown = [row for row in rows if columns.matches(row, self._filter)]
        self.rows = columns.ordered(shown, self._by, inverted=self._inverted)
        of_slices = {f"{row.card.index}/{row.stat.id}": row for row in self.rows}
        _fill(self._table("#slices"), SLICES, of_slices)
        self._draw_head()

    def _history(self, uuid: str, container: str = "") -> list[float | None]:
        return list(self._times[uuid, container])

    def _draw_head(self) -> None:
        if not self._is_there():
            return
        silent = time.monotonic() - self._heard
        state = self._away
        if silent > max(STALLED_S, 3 * self._delay):
            state = f"the engine has not answered for {silent:.0f} s; what is shown is as old"
        elif self._shot and not self.rows:
            state = "no slice has these words" if self._filter else without(self._shot.cards)
        main = self.screen_stack[0]
        line = main.query_one("#state", Static)
        line.update(state)
        line.display = bool(state)
        words = ["cgpu top", socket.gethostname()]
        if self._shot:
            words += [columns.engine(self._shot.versions.engine), columns.summary(self._shot.cards)]
        words += [f"filter: {one_line(self._filter)}"] if self._filter else []
        clock = datetime.now().astimezone().strftime("%H:%M:%S")
        main.query_one("#head", Static).update(f"{'  '.join(words)}  every {self._delay:g} s  {clock}")

    # Choosing

    def action_by(self, heading: str) -> None:
        """Sort by a column; again by the same one: the other way round."""
        self._inverted = self._by == heading and not self._inverted
        self._by = heading
        self._draw()

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        """Sort by the column whose heading was clicked."""
        heading = event.label.plain
        if event.data_table.id == "slices" and heading:
            self.action_by(heading)

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Show all about the slice."""
        if event.data_table.id == "slices":
            self.action_details()

    def action_details(self) -> None:
        """Show all about the slice that is chosen."""
        at = self._table("#slices").cursor_row
        if at < len(self.rows):
            self.push_screen(Details(self.rows[at]))

    def action_filter(self) -> None:
        """Ask for words that the shown slices have."""
        prompt = self.query_one("#filter", Input)
        prompt.display = True
        prompt.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter while it is typed."""
        self._filter = event.value
        self._draw()

    def on_input_submitted(self, _: Input.Submitted) -> None:
        """Go back to the table."""
        self._close_prompt()

    def action_close(self) -> None:
        """Show all again."""
        self.query_one("#filter", Input).value = ""
        self._close_prompt()

    def _close_prompt(self) -> None:
        self.query_one("#filter", Input).display = False
        self.query_one("#slices").focus()


def _have_columns(table: DataTable[Text], shown: Sequence[Column[View]]) -> None:
    for number, one in enumerate(shown):
        table.add_column(one.heading, width=one.width, key=str(number))


def _fill(table: DataTable[Text], shown: Sequence[Column[View]], rows: Mapping[str, View]) -> None:
    """Have these rows in a table; the chosen one stays chosen wherever it goes."""
    before = [row.key.value for row in table.ordered_rows]
    if before == list(rows):
        for key, row in rows.items():
            for number, one in enumerate(shown):
                table.update_cell(key, str(number), one.cell(row))
        return
    chosen = before[table.cursor_row] if table.cursor_row < len(before) else None
    table.clear()
    for key, row in rows.items():
        table.add_row(*(one.cell(row) for one in shown), key=key)
    if chosen is not None and chosen in rows:
        table.move_cursor(row=list(rows).index(chosen))
