# SPDX-License-Identifier: Apache-2.0
"""JSON without the json package, whose import costs as much as half an interpreter start.

The standard library's own C scanner does the work. A text that it cannot read goes to the json package, which
mostly finds the words for the error.
"""

from __future__ import annotations

from cgpu.errors import show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import NoReturn

_SPACE = " \t\n\r"


def refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise ValueError(f"the key {show(key)} appears twice in one object")
            seen.add(key)
    return found


class Context:
    """Options that the scanner reads from its decoder."""

    strict = True
    object_hook = None
    object_pairs_hook: Callable[[list[tuple[str, object]]], object] | None = None
    parse_float: Callable[[str], object] = float
    parse_int: Callable[[str], object] = int
    parse_constant = staticmethod(refuse_constant)


class UniqueContext(Context):
    """The same, where no object may have a key twice: parsers differ in which value they take."""

    object_pairs_hook = staticmethod(_unique)


def loads(raw: bytes, context: type[Context] = Context) -> object:
    """Parse one JSON text in UTF-8. Raises ValueError for anything else, also when it nests too deep."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError("not UTF-8") from error
    try:
        return _parse(text.strip(_SPACE), context)
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

    return json.loads(
        text,
        object_pairs_hook=context.object_pairs_hook,
        parse_float=context.parse_float,
        parse_int=context.parse_int,
        parse_constant=refuse_constant,
    )
