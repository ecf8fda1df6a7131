# SPDX-License-Identifier: Apache-2.0
"""
One value in the text of a configuration, all else to the byte as it was.

A library that writes YAML anew (ruamel.yaml) keeps comments, and yet moves blanks and breaks lines. The file
is flat, and PyYAML tells where each value begins and ends: only that piece is exchanged.
"""

from __future__ import annotations

import json
import re

import yaml

from cgpu.config.load import NOT_YAML, check, parse
from cgpu.errors import CgpuError, show

PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")


def with_value(text: str, key: str, value: object, source: str) -> str:
    """Return the text with a key's value exchanged, or with a line added. Raises CgpuError."""
    before = document(text, source)
    after = _exchanged(text, key, written(value), source)
    try:
        found = document(after, source)
    except CgpuError:
        found = None
    if found != {**before, key: value}:
        raise CgpuError(
            f"{source}: {key}: cannot be set by this command in a file of this form; edit it by hand"
        )
    check(found, source)
    return after


def value_of(word: str, key: str) -> object:
    """Return the value that a word of the command line means. Raises CgpuError for one that is no value."""
    try:
        value: object = yaml.safe_load(word)
    except NOT_YAML as error:
        raise CgpuError(f"{key}: {show(word)}: is no value; see: cgpu config explain {key}") from error
    return value


def document(text: str, source: str) -> dict[str, object]:
    """Return the keys and values of a text. Raises CgpuError."""
    found = parse(text.encode(), source)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise CgpuError(f"{source}: accepted are lines of the form KEY: VALUE: cgpu config check")
    return found


def written(value: object) -> str:
    """Return a value as it is written: a word without quotes where YAML reads it as the same."""
    plain = isinstance(value, str) and PLAIN.fullmatch(value) and yaml.safe_load(value) == value
    return str(value) if plain else json.dumps(value)


def _exchanged(text: str, key: str, value_text: str, source: str) -> str:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    for name, value in pairs:
        if isinstance(name, yaml.ScalarNode) and name.value == key:
            start, end = value.start_mark.index, value.end_mark.index
            gap = " " if text[start - 1 : start] == ":" else ""
            # A block of several lines ends behind its last newline.
            tail = "\n" if text[start:end].endswith("\n") else ""
            return text[:start] + gap + value_text + tail + text[end:]
    if root is not None and not isinstance(root, yaml.MappingNode):
        raise CgpuError(f"{source}: accepted are lines of the form KEY: VALUE")
    line_end = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{line_end}{key}: {value_text}\n"
