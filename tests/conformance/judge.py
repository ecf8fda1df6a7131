# SPDX-License-Identifier: Apache-2.0
"""Whether a step of a case gave what was expected.

An expectation is the very result, or an object with one or more of these; None stands for no error. errno:
one of these names, or any for "*". nothing: an empty text, or any error. match: a pattern. has, hasnt: words
in a text, or names in a list. within: names of which some came, and no other. fields: some of an object.
lines: for the first word of a line, the last words of all such lines in any order. A step that broke (a
result with "broken") fits nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Json = Any


def fits(expected: Json, got: Json) -> bool:
    """Say whether a step gave what was expected: no error, where nothing more is said."""
    if isinstance(got, dict) and "broken" in got:
        return False
    failed = isinstance(got, dict) and "errno" in got
    if isinstance(expected, dict) and "errno" in expected:
        names = expected["errno"] if isinstance(expected["errno"], list) else [expected["errno"]]
        return failed and (got["errno"] in names or names == ["*"])
    if failed:
        return isinstance(expected, dict) and "nothing" in expected
    if not isinstance(expected, dict):
        return expected is None or bool(got == expected)
    checks: dict[str, Callable[[Json], bool]] = {
        "nothing": lambda _: got == "",
        "match": lambda rule: isinstance(got, str) and re.fullmatch(rule, got) is not None,
        "has": lambda words: all(word in got for word in words),
        "hasnt": lambda words: not any(word in got for word in words),
        "within": lambda words: bool(got) and set(got) <= set(words),
        "fields": lambda wanted: {name: got.get(name) for name in wanted} == wanted,
        "lines": lambda rules: lines_fit(rules, str(got)),
    }
    return all(checks[name](rule) for name, rule in expected.items())


def lines_fit(rules: dict[str, list[str]], text: str) -> bool:
    """Say whether the lines that begin with a word end with the texts listed for it."""
    for word, wanted in rules.items():
        found = sorted(line.rpartition(" ")[2] for line in text.splitlines() if line.split(" ")[0] == word)
        if found != sorted(wanted):
            return False
    return True
