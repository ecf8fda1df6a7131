# SPDX-License-Identifier: Apache-2.0
"""A view as lines of text, for a file, a pipe, or a terminal that can do no more."""

from __future__ import annotations

from cgpu.errors import one_line
from cgpu.top import draw, layout
from cgpu.top.choose import matches, ordered
from cgpu.top.draw import ASCII
from cgpu.top.model import Slice, View

COLUMNS = 120
"""As wide as what is not for a terminal."""
MOST = 166
"""Beyond that only histories would grow, of which one view has none."""


def text(view: View, when: str, *, by: str, filtered: str = "", columns: int = COLUMNS) -> str:
    """Return a view as lines that end without blanks."""
    columns = min(columns, MOST)
    shown = ordered((one for one in view.slices if matches(one, filtered)), by)
    head = " ".join(word for word in ("cgpu top", when, one_line(view.engine), layout.summary(view)) if word)
    lines = [head, *(draw.plain(line) for line in layout.cards(view, columns, ASCII))]
    return "".join(f"{line}\n" for line in [*lines, *_slices(view, shown, by, filtered, columns)])


def _slices(view: View, shown: tuple[Slice, ...], by: str, filtered: str, columns: int) -> list[str]:
    if not shown:
        return [layout.nothing(view, filtered)]
    headings = layout.headings(columns, ASCII, by)
    return [draw.plain(line) for line in (headings, *layout.table(shown, columns, ASCII))]
