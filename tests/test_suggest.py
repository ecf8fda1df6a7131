# SPDX-License-Identifier: Apache-2.0
"""What a message says of a mistyped word."""

from __future__ import annotations

import pytest

from cgpu.suggest import FEW, expected, nearest

MORE = "see: cgpu --help"
MANY = ["run", "upgrade", "check-driver", "status", "doctor", "gc", "config"]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("stauts", "status"),
        ("STATUS", "status"),
        ("doctr", "doctor"),
        ("checkdriver", "check-driver"),
        ("zzz", None),
        ("", None),
        ("status" * 20, None),
        (5, None),
        (None, None),
    ],
)
def test_nearest(word: object, meant: str | None) -> None:
    """The nearest word is found whatever its case, and none for a word that is like none or is no word."""
    assert nearest(word, MANY) == meant


def test_few_are_listed() -> None:
    """Up to five words are listed, and the nearest is asked for."""
    assert expected("modul", ["auto", "module", "daemon"], MORE) == (
        "expected auto, module or daemon; did you mean module?"
    )
    assert expected("x", ["auto"], MORE) == "expected auto"
    assert expected("x", list("abcde"), MORE).count(",") == FEW - 2


def test_many_are_not_listed() -> None:
    """More words are not listed: the message says where they are."""
    assert expected("stauts", MANY, MORE) == f"did you mean status? {MORE}"
    assert expected("zzz", MANY, MORE) == MORE
