# SPDX-License-Identifier: Apache-2.0
"""The compiled validator is the schema."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from cgpu.ask import ANNOTATIONS, VARIABLES
from cgpu.schema import compile as compiler
from cgpu.schema.automaton import compile_pattern
from cgpu.schema.request_validator import check

SCHEMA: dict[str, Any] = json.loads(compiler.SCHEMA.read_text())
VALIDATOR = Draft202012Validator(SCHEMA)
DEFINITIONS: dict[str, Any] = SCHEMA["$defs"]
SECTIONS: dict[str, Any] = SCHEMA["properties"]

near = st.text(alphabet="0123456789,-GPUalgpuTrueFsE\n\0 \u0663", max_size=12)
matching = st.one_of(
    [
        st.from_regex(rule["pattern"].replace("(?![\\s\\S])", r"\Z"), fullmatch=True)
        for rule in DEFINITIONS.values()
    ]
)
values = st.one_of(
    near, matching, st.text(max_size=400), st.integers(), st.none(), st.lists(st.text(max_size=2))
)


def section(name: str) -> st.SearchStrategy[dict[str, object]]:
    """Return documents of one section, with a foreign name now and then."""
    return st.dictionaries(st.sampled_from([*SECTIONS[name]["properties"], "PATH"]), values, max_size=4)


documents = st.one_of(
    st.fixed_dictionaries({}, optional={name: section(name) for name in SECTIONS}),
    st.dictionaries(
        st.sampled_from([*SECTIONS, "x"]), st.one_of(st.none(), section("environment")), max_size=3
    ),
    st.recursive(st.none() | st.booleans() | st.text(max_size=3), st.lists, max_leaves=5),
)


@given(documents)
@settings(max_examples=600, deadline=None)
def test_always_agree(document: object) -> None:
    """The schema and the compiled validator accept and refuse the same documents."""
    assert VALIDATOR.is_valid(document) == (check(document) is None)


@pytest.mark.parametrize("name", DEFINITIONS)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_tables_match(name: str, data: st.DataObject) -> None:
    """A table of states accepts what its pattern accepts."""
    pattern = DEFINITIONS[name]["pattern"]
    text = data.draw(st.one_of(near, matching))
    table, state = compile_pattern(pattern), 0
    for character in text:
        column = table.classes.get(character, -1)
        state = table.rows[state][column] if state >= 0 and column >= 0 else -1
    assert (state in table.accepting) == (re.search(pattern, text) is not None)


def test_up_to_date() -> None:
    """The checked-in validator is what the schema compiles to: `python3 -m cgpu.schema.compile`."""
    assert compiler.OUTPUT.read_text() == compiler.generate(SCHEMA)


def test_schema_is_valid() -> None:
    """The schema is itself a schema."""
    Draft202012Validator.check_schema(SCHEMA)


def test_names() -> None:
    """The schema knows the variables and annotations that are read, and no other."""
    assert set(SECTIONS["environment"]["properties"]) == VARIABLES
    assert set(SECTIONS["annotations"]["properties"]) == ANNOTATIONS


@pytest.mark.parametrize(
    "pattern",
    ["[0-9]+", "^[0-9]+$", "^.(?![\\s\\S])", "^[^a](?![\\s\\S])", "^(?i:a)(?![\\s\\S])", "^\\d(?![\\s\\S])"],
)
def test_unsupported_pattern(pattern: str) -> None:
    """A pattern that the compiler does not understand is an error, never a looser check."""
    with pytest.raises(ValueError, match=r"pattern|set"):
        compile_pattern(pattern)


@pytest.mark.parametrize(
    "change",
    [
        {"minProperties": 1},
        {"additionalProperties": True},
        {"$defs": {**DEFINITIONS, "whole": {**DEFINITIONS["whole"], "minLength": 1}}},
        {"$defs": {**DEFINITIONS, "whole": {**DEFINITIONS["whole"], "type": "integer"}}},
        {"$defs": {k: v for k, v in DEFINITIONS.items() if k != "whole"}},
    ],
)
def test_unsupported_schema(change: dict[str, Any]) -> None:
    """A schema that uses more than the compiler understands is an error."""
    with pytest.raises(ValueError, match=r"not understood|must be|no definition|only strings"):
        compiler.generate({**SCHEMA, **change})
