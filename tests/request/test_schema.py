# SPDX-License-Identifier: Apache-2.0
"""The checks of a container's variables and annotations are those of the JSON Schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from cgpu.request import validate
from cgpu.request.names import NAMES

SCHEMA: dict[str, Any] = json.loads((Path(validate.__file__).parent / "schema.json").read_text())
VALIDATOR = Draft202012Validator(SCHEMA)
DEFINITIONS: dict[str, Any] = SCHEMA["$defs"]
SECTIONS: dict[str, Any] = SCHEMA["properties"]
END = "(?![\\s\\S])"

near = st.text(alphabet="0123456789,.%-GiMkbBPUalgpuTrueFsEhn\n\0 \u0663", max_size=12)
matching = st.one_of(
    [st.from_regex(rule["pattern"].replace(END, r"\Z"), fullmatch=True) for rule in DEFINITIONS.values()]
)
values = st.one_of(
    near, matching, st.text(max_size=400), st.integers(), st.none(), st.lists(st.text(max_size=2))
)


@pytest.mark.parametrize("key", NAMES)
@given(value=values)
def test_always_agree(key: str, value: object) -> None:
    """The schema and the checks take and refuse the same values, as variable and as annotation."""
    variables, annotations = NAMES[key]
    fits = validate.expected(key, value) is None
    for variable in variables:
        assert VALIDATOR.is_valid({"environment": {variable: value}}) == fits
    for annotation in annotations:
        assert VALIDATOR.is_valid({"annotations": {annotation: value}}) == fits


@pytest.mark.parametrize("key", NAMES)
def test_lengths(key: str) -> None:
    """The longest text of the schema is valid, and none that is longer."""
    name = NAMES[key][0][0]
    reference = SCHEMA["properties"]["environment"]["properties"][name]["$ref"]
    longest = DEFINITIONS[reference.rpartition("/")[2]]["maxLength"]
    for digits in range(1, longest + 2):
        for text in ("1" * digits, ("1," * digits)[:digits].rstrip(","), "GPU-" + "a" * max(digits - 4, 1)):
            fits = VALIDATOR.is_valid({"environment": {name: text}})
            assert (validate.expected(key, text) is None) == fits, text


def test_names() -> None:
    """The schema is one itself, and knows the variables and annotations that are read, and no other."""
    Draft202012Validator.check_schema(SCHEMA)
    for index, section in enumerate(("environment", "annotations")):
        assert set(SECTIONS[section]["properties"]) == {
            name for names in NAMES.values() for name in names[index]
        }
