# SPDX-License-Identifier: Apache-2.0
"""Words of messages about values of config.yaml that do not fit: the value as YAML, and what was meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cgpu import suggest
from cgpu.errors import show
from cgpu.request.grants import is_number
from cgpu.sizes import MIB, size_in_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

SWITCHES = ("true", "false", "yes", "no", "on", "off")
DIGITS = 16
BYTES_OF_UNIT = {"bytes": 1, "MiB": MIB}


def shown(value: object) -> str:
    """Return a value as the file has it: true is no "true", and nothing is not the word None."""
    if value is None:
        return "no value"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and (value.lower() in SWITCHES or is_number(value, DIGITS)):
        return f'"{show(value)}"'
    return show(value)


def meant(value: object, rule: Mapping[str, Any]) -> str:
    """Return the end of a message: the value that was probably meant; nothing where none is known.

    rule: of the key, in the schema.
    """
    if not isinstance(value, str) or len(value) > suggest.LONGEST:
        return ""
    if _fits_unquoted(value, rule):
        return f"; did you mean {show(value)} without quotes?"
    size = _in_unit(value, rule)
    if size is not None:
        return f"; did you mean {size}, which is {value}?"
    word = value.removesuffix("%").strip()
    if word != value and word.isascii() and word.isdigit() and rule.get("unit") == "percent":
        return f"; did you mean {word}?"
    names = {name: str(number) for number, name in enumerate(rule.get("names", ()))}
    near = suggest.nearest(value, names)
    if near is not None:
        return f"; did you mean {names[near]} ({near})?"
    near = suggest.nearest(value, rule.get("enum", ()))
    return f"; did you mean {near}?" if near is not None else ""


def _in_unit(value: str, rule: Mapping[str, Any]) -> int | None:
    """Return a size such as 6G in the unit of the key; None where it is no size, or out of bounds."""
    size, unit = size_in_bytes(value), BYTES_OF_UNIT.get(rule.get("unit", ""))
    if size is None or unit is None:
        return None
    return size // unit if rule["minimum"] <= size // unit <= rule["maximum"] else None


def _fits_unquoted(value: str, rule: Mapping[str, Any]) -> bool:
    """Return whether a text without its quotes would be a value of the key."""
    if "minimum" not in rule:
        return "boolean" in rule["type"] and value.lower() in SWITCHES
    return is_number(value, DIGITS) and rule["minimum"] <= int(value) <= rule["maximum"]
