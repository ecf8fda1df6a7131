# SPDX-License-Identifier: Apache-2.0
"""Lines of one shape are checked against the schema once: a trace has many lines and few shapes.

A shape is a document in which each number stands for all numbers that no limit of the schema tells apart.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from jsonschema.exceptions import ValidationError

MAX_SHAPES = 1 << 16


def _limits(schema: object) -> Iterator[int]:
    if isinstance(schema, dict):
        for name, rule in schema.items():
            if isinstance(rule, int) and not isinstance(rule, bool):
                # A limit parts the numbers before it and behind it; a constant both.
                yield from (rule, rule + 1) if name in ("minimum", "maximum", "const") else ()
            yield from _limits(rule)
    elif isinstance(schema, list):
        for rule in schema:
            yield from _limits(rule)


class Shapes:
    """The shapes that a schema is known to accept."""

    def __init__(self, schema: dict[str, Any]) -> None:
        """schema: one whose numbers are told apart by minimum, maximum and const alone."""
        self._validator = Draft202012Validator(schema)
        self._limits = sorted(set(_limits(schema)))
        self._good: set[Hashable] = set()

    def problem(self, document: object) -> ValidationError | None:
        """Return what is wrong with a document."""
        shape = self._shape(document)
        if shape in self._good:
            return None
        found: ValidationError | None = best_match(self._validator.iter_errors(document))
        if found is None and len(self._good) < MAX_SHAPES:
            self._good.add(shape)
        return found

    def _shape(self, value: object) -> Hashable:
        if isinstance(value, dict):
            return ("{", *((name, self._shape(one)) for name, one in value.items()))
        if isinstance(value, list):
            return ("[", *(self._shape(one) for one in value))
        if isinstance(value, int) and not isinstance(value, bool):
            return ("0", bisect_right(self._limits, value))
        return (type(value), value)
