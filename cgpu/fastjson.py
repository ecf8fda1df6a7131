# SPDX-License-Identifier: Apache-2.0
"""JSON without the json package, whose import costs as much as half an interpreter start.

The standard library's own C scanner does the work. A text that it cannot read goes to the json package, which
mostly finds the words for the error.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import NoReturn

_SPACE = " \t\n\r"


def refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a member is given twice")
    return found


class Context:
    """Options that the scanner reads from its decoder."""

    strict = True
    object_hook = None
    object_pairs_hook: object = None
    parse_float: object = float
    parse_int: object = int
    parse_constant = staticmethod(refuse_constant)


class _UniqueContext(Context):
    """The same, for texts in which no object may have a member twice."""

    object_pairs_hook = staticmethod(_unique)


def loads(raw: bytes, *, unique: bool = False) -> object:
    """Parse one JSON text in UTF-8. Raises ValueError for anything else, also when it nests too deep.

    The last value of a member that is given twice counts; with unique it is an error.
    """
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError("not UTF-8") from error
    try:
        return _parse(text.strip(_SPACE), _UniqueContext if unique else Context)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def flat_object(fields: Mapping[str, str | int]) -> str:
    """Return an object of texts and numbers on one line of printable ASCII. Names are letters."""
    from _json import encode_basestring_ascii

    inner = (
        f'"{key}": {encode_basestring_ascii(value) if isinstance(value, str) else value}'
        for key, value in fields.items()
    )
    return f"{{{', '.join(inner)}}}"


def _parse(text: str, context: type[Context]) -> object:
    try:
        from _json import make_scanner

        value, end = make_scanner(context)(text, 0)  # type: ignore[arg-type] # it needs only these attributes
        if end == len(text):
            return value
    except (ImportError, StopIteration, SystemError, ValueError):
        pass
    import json

    hook = _unique if context is _UniqueContext else None
    return json.loads(text, parse_constant=refuse_constant, object_pairs_hook=hook)
