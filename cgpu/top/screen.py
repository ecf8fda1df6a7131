# SPDX-License-Identifier: Apache-2.0
"""
The screen of cgpu top, by Textual. Its lines come from layout.py and details.py.

The screen has the terminal's own sixteen colours and background: dark in a dark terminal, light in a light
one, and the same over ssh.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.events import Resize
from textual.message import Message
from textual.screen import ModalScreen, Screen
from textual.strip import Strip
from textual.widgets import Footer, Input, OptionList, Static
from textual.widgets.option_list import Option

from cgpu.errors import CgpuError, one_line
from cgpu.top import details, draw, layout
from cgpu.top.choose import ORDERS, matches, ordered
from cgpu.top.draw import Line
from cgpu.top.model import Slice, View
from cgpu.top.reading import Key, Read
from cgpu.top.sampler import Sampler

DELAYS = (0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
NOTICE_S = 60.0
STALLED_S = 5.0
# Text of these colours can be read on black and on white in the palettes of usual terminals: cyan and yellow
# cannot on white, nor blue, magenta and red on black.
STYLES = {
    draw.PLAIN: "",
    draw.LABEL: "dim",
    draw.DIM: "dim",
    draw.STRONG: "bold",
    draw.HEADING: "black on green",
    draw.SORTED: "black on cyan",
    draw.TIME: "green",
    draw.MEMORY: "bright_magenta",
    draw.PROMISED: "bright_blue",
    draw.ALERT: "bold bright_red",
}
HELP = """\
[||||  40%] of a slice: its GPU time, and its memory of what it may have
[|||:::   ] of a card: memory in use (|) and given out to slices (:)
A ! beside a card: its slices are not what they should be; F5 says why.
A history has a character for each view, the latest at the right.

GPU-UTIL   part of the time in which the slice ran
LIMIT      its part of the time while all others have work
USED ALLOC memory that is charged to it, and that it may have
THROTTLED  part of the time in which its share did not let it run
REFSD      refused calls: for memory, and others; red while it grows
PROC       processes that hold memory

F5 Enter   all about the slice that is chosen
F3 /       search; F3 again: the next one
F4 \\       filter: only containers and pods with these words
F6 < >     sort by; P by GPU time, M by memory; I the other way round
+ - d      longer or shorter delay; type it
Z          stop, and go on
F10 q      end

Words of F3 and F4 are parts of a name, with pod and namespace, or id.
Esc closes what is open."""
OF_THE_TABLE = ("help", "search", "filter", "details", "sort", "invert", "by", "again", "delay")
PARTS = "#head, #state, #card-lines, #headings, #slices"
REVERSE = Style(reverse=True)


class Sampled(Message):
    """A view, or why there is none."""

    def __init__(self, found: View | CgpuError) -> None:
        """Keep it."""
        super().__init__()
        self.found = found


def shown(line: Line) -> Text:
    """Return a line in colours. No piece is read as markup."""
    return Text.assemble(*((text, STYLES[meaning]) for text, meaning in line), no_wrap=True, end="")


class Choice(OptionList):
    """Lines of which one is chosen. The chosen line is in reverse, whatever colours it has."""

    def render_line(self, y: int) -> Strip:
        """Return a line as it is shown."""
        strip = super().render_line(y)
        index = self.scroll_offset.y + y
        if index != self.highlighted:
            return strip
        return Strip([Segment(strip.text, REVERSE)], strip.cell_length).apply_meta({"option": index})


class Prompt(Input):
    """The line at the bottom in which something is typed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]

    class Left(Message):
        """The user left the prompt without an answer."""

    def action_leave(self) -> None:
        """Leave it."""
        self.post_message(self.Left())


class Page(Screen[None]):
    """A screen of lines that can be scrolled, and left again."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,f5,f10,enter", "leave", "Back", key_display="Esc")
    ]

    def __init__(self, title: str, lines: Callable[[int], Iterable[Line]]) -> None:
        """Show a title, and lines for a width."""
        super().__init__()
        self._title = title
        self._lines = lines

    def compose(self) -> ComposeResult:
        """Make the parts."""
        yield Static(id="title", classes="head", markup=False)
        with VerticalScroll():
            yield Static(id="lines", markup=False)
        yield Footer()

    def on_resize(self, _: Resize) -> None:
        """Draw for the new width."""
        self.draw()

    def draw(self) -> None:
        """Draw the lines anew, once the parts are there."""
        if not self.query("#lines"):
            return
        self.query_one("#title", Static).update(f"cgpu top: {self._title}".ljust(self.size.width))
        lines = self._lines(max(40, self.size.width - 3))
        self.query_one("#lines", Static).update(Text("\n").join(map(shown, lines)))

    def action_leave(self) -> None:
        """Go back."""
        self.dismiss()


class SortBy(ModalScreen[str | None]):
    """A list of what can be sorted by."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,f6,f10", "leave", "Back", show=False)]

    def __init__(self, now: str) -> None:
        """Begin with the order that holds now."""
        super().__init__()
        self._now = now

    def compose(self) -> ComposeResult:
        """Make the list."""
        yield Choice(*(Option(order.says, id=name) for name, order in ORDERS.items()))

    def on_mount(self) -> None:
        """Stand on the order that holds."""
        orders = self.query_one(Choice)
        orders.border_title = "Sort by"
        orders.border_subtitle = "Enter Esc"
        orders.highlighted = list(ORDERS).index(self._now)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Take the order."""
        event.stop()
        self.dismiss(event.option.id)

    def action_leave(self) -> None:
        """Leave the order as it is."""
        self.dismiss(None)


class Top(App[None]):
    """Cards, and the table of slices."""

    TITLE = "cgpu top"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    .head { text-style: reverse; height: 1; }
    #state { text-style: bold; color: ansi_bright_red; height: auto; display: none; }
    #cards { height: auto; max-height: 40%; margin: 1 0; scrollbar-size-vertical: 1; }
    #cards Static { height: auto; }
    #headings { height: 1; }
    #slices { height: 1fr; border: none; padding: 0; scrollbar-size-vertical: 1; background: ansi_default; }
    #slices:focus { border: none; }
    OptionList > .option-list--option { padding: 0; }
    #ask { display: none; height: 1; }
    #asks { width: auto; text-style: bold; margin: 0 1 0 0; }
    #prompt { width: 1fr; height: 1; border: none; padding: 0; background: ansi_default; }
    #prompt:focus { border: none; }
    VerticalScroll { scrollbar-size-vertical: 1; }
    Page VerticalScroll { padding: 0 1; }
    SortBy { align: left top; }
    SortBy OptionList { width: 24; height: auto; margin: 2 0; border: solid ansi_default; padding: 0 1;
        background: ansi_default; }
    * {
        scrollbar-color: ansi_cyan; scrollbar-color-hover: ansi_cyan; scrollbar-color-active: ansi_cyan;
        scrollbar-background: ansi_default; scrollbar-background-hover: ansi_default;
        scrollbar-background-active: ansi_default;
    }
    Footer { background: ansi_default; }
    FooterKey .footer-key--key { color: ansi_default; text-style: none; padding: 0 0 0 1; }
    FooterKey .footer-key--description { color: ansi_black; background: ansi_cyan; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1,question_mark", "help", "Help", key_display="F1"),
        Binding("f3,slash", "search", "Search", key_display="F3"),
        Binding("f4,backslash", "filter", "Filter", key_display="F4"),
        Binding("f5", "details", "Details", key_display="F5"),
        Binding("f6,less_than_sign,greater_than_sign", "sort", "Sort", key_display="F6"),
        Binding("I", "invert", show=False),
        Binding("P", "by('time')", show=False),
        Binding("M", "by('memory')", show=False),
        Binding("n", "again", show=False),
        Binding("plus", "slower", show=False),
        Binding("minus", "faster", show=False),
        Binding("d", "delay", "Delay"),
        Binding("Z", "pause", "Pause"),
        Binding("f10,q", "quit", "Quit", key_display="F10"),
        Binding("ctrl+c", "quit", show=False, priority=True),
    ]

    def __init__(self, read: Read, *, delay: float, by: str = "time", filtered: str = "") -> None:
        """Take who reads, the seconds between two readings, the order and the filter at first."""
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.pen = draw.pen(sys.stdout.encoding)
        self.view: View | None = None
        self.rows: tuple[Slice, ...] = ()
        self._sampler = Sampler(read, lambda found: self.post_message(Sampled(found)), delay)
        self._delay = delay
        self._by = by
        self._inverted = False
        self._filter = filtered
        self._search = ""
        self._asks: str | None = None
        self._selected: Key | None = None
        """The slice that somebody chose; until then the first line is chosen, whichever slice that is."""
        self._placed: int | None = None
        """The line that was chosen by ourselves."""
        self._details: Key | None = None
        self._paused = False
        self._away = ""
        self._notice, self._notice_until = "", 0.0
        self._heard = time.monotonic()

    def compose(self) -> ComposeResult:
        """Make the parts."""
        yield Static(id="head", classes="head", markup=False)
        yield Static(id="state", markup=False)
        with VerticalScroll(id="cards", can_focus=False):
            yield Static(id="card-lines", markup=False)
        yield Static(id="headings", markup=False)
        yield Choice(id="slices", markup=False)
        with Horizontal(id="ask"):
            yield Static(id="asks", markup=False)
            yield Prompt(id="prompt", select_on_focus=False)
        yield Footer()

    def on_mount(self) -> None:
        """Begin to read."""
        self.query_one("#slices").focus()
        self.set_interval(1.0, self._draw_head)
        self._draw()
        self._sampler.start()

    def on_unmount(self) -> None:
        """End the readings."""
        self._sampler.stop()

    def on_resize(self, _: Resize) -> None:
        """Draw for the new width."""
        self._draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool:  # noqa: ARG002 (Textual calls it)
        """Allow what concerns the table where the table is what is seen."""
        return len(self.screen_stack) < 2 or action not in OF_THE_TABLE

    # Reading

    def on_sampled(self, message: Sampled) -> None:
        """Take a view, or that there is no engine."""
        self._heard = time.monotonic()
        if isinstance(message.found, CgpuError):
            self.view, self._away = None, str(message.found)
        elif not self._paused or self.view is None:
            self.view, self._away = message.found, ""
        if isinstance(message.found, View) and message.found.restarted:
            self._notice = f"the engine was started anew at {_clock()}; counters go on, rates begin anew"
            self._notice_until = time.monotonic() + NOTICE_S
        self._draw()

    # Drawing

    def _draw(self) -> None:
        if not self._is_there():
            return
        view = self.view or View()
        self._draw_head()
        main = self.screen_stack[0]
        wide = self.size.width
        lines = layout.cards(view, wide, self.pen)
        main.query_one("#card-lines", Static).update(Text("\n").join(map(shown, lines)))
        headings = layout.headings(wide - 1, self.pen, self._by, inverted=self._inverted)
        headings = (*headings, (" ", draw.HEADING))
        main.query_one("#headings", Static).update(shown(headings))
        self._draw_slices(main.query_one("#slices", Choice), view, wide - 1)
        if isinstance(self.screen, Page):
            self.screen.draw()

    def _is_there(self) -> bool:
        """Return whether the parts are there: not yet at first, and no more at the end."""
        return bool(self.screen_stack) and len(self.screen_stack[0].query(PARTS)) == PARTS.count("#")

    def _draw_head(self) -> None:
        if not self._is_there():
            return
        main, view = self.screen_stack[0], self.view or View()
        silent = time.monotonic() - self._heard
        state = self._away
        if silent > max(STALLED_S, 3 * self._delay):
            state = f"the engine has not answered for {silent:.0f} s; what is shown is as old"
        elif not state and time.monotonic() < self._notice_until:
            state = self._notice
        line = main.query_one("#state", Static)
        line.update(state)
        line.display = bool(state)
        words = [socket.gethostname(), one_line(view.engine), layout.summary(view) if self.view else ""]
        words += [
            f"filter: {one_line(self._filter)}" if self._filter else "",
            "paused" if self._paused else "",
        ]
        left = "  ".join(word for word in ("cgpu top", *words) if word)
        right = f"every {self._delay:g} s  {_clock()}"
        room = self.size.width - len(right) - 1
        main.query_one("#head", Static).update(f"{draw.left(left, room)} {right}")

    def _draw_slices(self, slices: Choice, view: View, wide: int) -> None:
        """Draw the table; the chosen slice stays chosen wherever it goes."""
        at = slices.highlighted
        if at is not None and at != self._placed and at < len(self.rows):
            self._selected = self.rows[at].key
        self.rows = ordered(
            (one for one in view.slices if matches(one, self._filter)), self._by, inverted=self._inverted
        )
        lines = [shown(line) for line in layout.table(self.rows, wide, self.pen)]
        if self.rows and slices.option_count == len(self.rows) and not slices.get_option_at_index(0).disabled:
            for index, text in enumerate(lines):
                slices.replace_option_prompt_at_index(index, text)
        else:
            why = layout.nothing(view, self._filter) if self.view else ""
            slices.set_options(map(Option, lines))
            if not lines:
                slices.add_option(Option(Text(why), disabled=True))
        places = {one.key: index for index, one in enumerate(self.rows)}
        if self.rows:
            self._placed = min(at or 0, len(self.rows) - 1)
            if self._selected is not None:
                self._placed = places.get(self._selected, self._placed)
            slices.highlighted = self._placed

    # Choosing

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Show all about the slice."""
        if event.option_list.id == "slices":
            self.action_details()

    def action_details(self) -> None:
        """Show all about the slice that is chosen."""
        index = self.query_one("#slices", Choice).highlighted
        if index is None or index >= len(self.rows) or isinstance(self.screen, Page):
            return
        self._details = self.rows[index].key
        self._sampler.watch(self._details)
        self.push_screen(Page(f"slice of GPU {self._details.gpu}", self._detail_lines), self._details_left)

    def _details_left(self, _: None) -> None:
        self._details = None
        self._sampler.watch(None)

    def _detail_lines(self, wide: int) -> list[Line]:
        view = self.view or View()
        one = next((one for one in view.slices if one.key == self._details), None)
        if one is None:
            return [((self._away or "This slice has ended.", draw.ALERT),)]
        card = next(card for card in view.cards if card.gpu.index == one.key.gpu)
        return details.of_slice(one, card, view.processes, wide, self.pen)

    def action_help(self) -> None:
        """Show what the keys do."""
        lines: list[Line] = [((line, draw.PLAIN),) for line in HELP.splitlines()]
        self.push_screen(Page("help", lambda _: lines))

    # The order

    def action_sort(self) -> None:
        """Ask what to sort by."""
        self.push_screen(SortBy(self._by), lambda name: self.action_by(name) if name else None)

    def action_by(self, name: str) -> None:
        """Sort by a column, the usual way round."""
        self._by, self._inverted = name, False
        self._draw()

    def action_invert(self) -> None:
        """Sort the other way round."""
        self._inverted = not self._inverted
        self._draw()

    # Typing

    def _ask(self, what: str, value: str, says: str) -> None:
        prompt = self.query_one("#prompt", Prompt)
        self._asks = what
        prompt.placeholder = says
        prompt.value = value
        prompt.cursor_position = len(value)
        self.query_one("#asks", Static).update(f"{what.capitalize()}:")
        self.query_one("#ask").display = True
        prompt.focus()

    def action_search(self) -> None:
        """Ask for words to look for; once they are there, go on to the next slice that has them."""
        if self._asks == "search":
            self.action_again()
        else:
            self._ask("search", "", "parts of a container's name or id")

    def action_filter(self) -> None:
        """Ask for words that all slices have to have."""
        self._ask("filter", self._filter, "parts of a container's name or id; nothing shows all")

    def action_delay(self) -> None:
        """Ask for the seconds between two views."""
        self._ask("delay", "", f"seconds between {DELAYS[0]:g} and 3600 (now {self._delay:g})")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search and filter while it is typed."""
        if self._asks == "filter":
            self._filter = event.value
            self._draw()
        elif self._asks == "search" and event.value:
            self._search = event.value
            self._find(0)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Take what was typed."""
        if self._asks == "delay":
            try:
                seconds = float(event.value)
            except ValueError:
                seconds = 0.0
            if DELAYS[0] <= seconds <= 3600:
                self._set_delay(seconds)
            else:
                self.bell()
        self._close_prompt()

    def on_prompt_left(self, _: Prompt.Left) -> None:
        """Take nothing; the filter goes."""
        if self._asks == "filter":
            self._filter = ""
        self._close_prompt()

    def _close_prompt(self) -> None:
        self._asks = None
        self.query_one("#ask").display = False
        self.query_one("#slices").focus()
        self._draw()

    def action_again(self) -> None:
        """Go to the next slice that has the words of the search."""
        if self._search:
            self._find(1)

    def _find(self, beyond: int) -> None:
        """Go to the first slice with the words, from the chosen one on, or so many beyond it, and around."""
        slices = self.query_one("#slices", Choice)
        begin = (slices.highlighted or 0) + beyond
        for step in range(len(self.rows)):
            index = (begin + step) % len(self.rows)
            if matches(self.rows[index], self._search):
                self._selected, slices.highlighted = self.rows[index].key, index
                return

    # Time

    def _set_delay(self, seconds: float) -> None:
        self._delay = seconds
        self._sampler.set_delay(seconds)
        self._draw_head()

    def action_slower(self) -> None:
        """Have a longer delay."""
        self._set_delay(next((one for one in DELAYS if one > self._delay), self._delay))

    def action_faster(self) -> None:
        """Have a shorter delay."""
        self._set_delay(next((one for one in reversed(DELAYS) if one < self._delay), self._delay))

    def action_pause(self) -> None:
        """Keep what is shown; or go on. Histories go on meanwhile."""
        self._paused = not self._paused
        self._draw_head()


def _clock() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")
