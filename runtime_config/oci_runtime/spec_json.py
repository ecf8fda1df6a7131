# SPDX-License-Identifier: Apache-2.0
"""JSON that is written as it was read: key order, strings and the text of every number stay.

Python's json would turn 1e400 into Infinity, 1.0E5 into 100000.0 and -0 into 0, and would keep only the last
of two equal keys. As in cgpu.fastjson, the standard library's own C scanner and encoder are used without the
package around them, whose import is slow; where an interpreter lacks them, the package does the same work.
"""

from __future__ import annotations

import os

from cgpu import fastjson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# Python refuses to convert longer texts into int.
_LONGEST_INT = 4000


class Number:
    """A number that Python would not write as it was read, by its text."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        """Store the text, which must be a JSON number."""
        self.text = text


def _integer(text: str) -> int | Number:
    return Number(text) if text == "-0" or len(text) > _LONGEST_INT else int(text)


class _Context(fastjson.UniqueContext):
    """Options that the scanner reads from its decoder."""

    parse_float = Number
    parse_int = staticmethod(_integer)


def loads(raw: bytes) -> object:
    """Parse one JSON text in UTF-8. Raises ValueError for anything else, equal keys included."""
    return fastjson.loads(raw, _Context)


def dumps(value: object) -> bytes:
    """Write a value of loads() on one line. Raises ValueError when it nests too deep."""
    mark = os.urandom(16).hex()
    try:
        text = _write(value, mark)
    except RecursionError as error:
        raise ValueError("it nests too deep") from error
    # A Number was written as the string MARK + text: take the quotes and the mark off.
    first, *rest = text.split(f'"{mark}')
    return (first + "".join(part.replace('"', "", 1) for part in rest) + "\n").encode("ascii")


def _write(value: object, mark: str) -> str:
    def default(number: object) -> str:
        if not isinstance(number, Number):
            raise TypeError(f"{type(number).__name__} is not of JSON")
        return mark + number.text

    try:
        from _json import encode_basestring_ascii, make_encoder
    except ImportError:
        import json

        return json.dumps(value, default=default, separators=(",", ":"))
    markers: dict[int, Any] = {}
    encoder = make_encoder(markers, default, encode_basestring_ascii, None, ":", ",", False, False, False)
    return "".join(encoder(value, 0))
