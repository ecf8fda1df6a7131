# SPDX-License-Identifier: Apache-2.0
"""What has a colour is read on black and on white, in the palettes of usual terminals."""

from __future__ import annotations

import pytest
from rich.style import Style

from cgpu.top.screen import STYLES

# The sixteen colours, and the backgrounds of a dark and a light window.
PALETTES = {
    "xterm": (
        (
            "000000 cd0000 00cd00 cdcd00 0000ee cd00cd 00cdcd e5e5e5 "
            "7f7f7f ff0000 00ff00 ffff00 5c5cff ff00ff 00ffff ffffff"
        ),
        ("000000", "ffffff"),
    ),
    "GNOME": (
        (
            "171421 c01c28 26a269 a2734c 12488b a347ba 2aa1b3 d0cfcc "
            "5e5c64 f66151 33d17a e9ad0c 2a7bde c061cb 33c7de ffffff"
        ),
        ("1d1d1d", "ffffff"),
    ),
    "Tango": (
        (
            "2e3436 cc0000 4e9a06 c4a000 3465a4 75507b 06989a d3d7cf "
            "555753 ef2929 8ae234 fce94f 729fcf ad7fa8 34e2e2 eeeeec"
        ),
        ("2e3436", "ffffff"),
    ),
    "Windows": (
        (
            "0c0c0c c50f1f 13a10e c19c00 0037da 881798 3a96dd cccccc "
            "767676 e74856 16c60c f9f1a5 3b78ff b4009e 61d6d6 f2f2f2"
        ),
        ("0c0c0c", "ffffff"),
    ),
    "macOS": (
        (
            "000000 990000 00a600 999900 0000b2 b200b2 00a6b2 bfbfbf "
            "666666 e50000 00d900 e5e500 0000ff e500e5 00e5e5 e5e5e5"
        ),
        ("000000", "ffffff"),
    ),
}
LEAST = 2.1
"""Cyan and yellow on white, and blue on black, have less."""


def luminance(colour: str) -> float:
    """Return how bright a colour is, as WCAG 2 counts."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    linear = [one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, as WCAG 2 counts: from 1 to 21."""
    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("name", PALETTES)
@pytest.mark.parametrize("meaning", STYLES)
def test_is_read(name: str, meaning: str) -> None:
    """On the window's background, or on its own."""
    style = Style.parse(STYLES[meaning])
    if style.color is None:
        return
    text, windows = PALETTES[name]
    palette = text.split()
    assert style.color.number is not None
    own = None if style.bgcolor is None else style.bgcolor.number
    for background in windows if own is None else (palette[own],):
        assert contrast(palette[style.color.number], background) >= LEAST
