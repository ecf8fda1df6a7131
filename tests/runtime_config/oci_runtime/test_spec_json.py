# SPDX-License-Identifier: Apache-2.0
"""JSON goes through the wrapper without a change of meaning."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.runtime_config.oci_runtime.spec_json import Number, dumps, loads

NUMBERS = (
    "1e400",
    "-1e400",
    "1.0",
    "1.50E+3",
    "18446744073709551615",
    "-0",
    "0",
    "-0.0",
    "1e-400",
    "9" * 5000,
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def exact(text: str) -> object:
    """Parse JSON with the text of every number."""
    return json.loads(
        text, parse_int=lambda t: ("number", t), parse_float=lambda t: ("number", t), object_pairs_hook=list
    )


@given(VALUES, st.sampled_from((None, 2)))
def test_every_value_survives(value: object, indent: int | None) -> None:
    """Any JSON text comes out with the same values, key order and number texts."""
    text = json.dumps(value, indent=indent)
    assert exact(dumps(loads(text.encode())).decode()) == exact(text)


@pytest.mark.parametrize("number", NUMBERS)
def test_every_number_keeps_its_text(number: str) -> None:
    """Numbers that Python would round, overflow or shorten keep their text."""
    text = f'{{"a":[{number},"x"]}}\n'
    assert dumps(loads(text.encode())).decode() == text


def test_odd_strings_survive() -> None:
    """A string that looks like a number stays, and so does half a surrogate pair, which is no character."""
    assert dumps({"a": Number("1e5"), "b": "1e5", "c": '"1e5'}) == b'{"a":1e5,"b":"1e5","c":"\\"1e5"}\n'
    assert dumps(loads(b'"\\ud800"')) == b'"\\ud800"\n'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b'{"a":1,"a":2}', "the key a appears twice in one object"),
        (b"NaN", "NaN is not JSON"),
        (b"[Infinity]", "Infinity is not JSON"),
        (b"{} x", "Extra data: line 1 column 4 (char 3)"),
        (b"", "Expecting value: line 1 column 1 (char 0)"),
        (b"[" * 200000, "nested too deep"),
        (b'"\xff"', "not UTF-8"),
        (b'"\x00"', "Invalid control character at: line 1 column 2 (char 1)"),
    ],
)
def test_what_is_not_json_is_refused(text: bytes, why: str) -> None:
    """Each fault has a reason of its own."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the reason is compared whole)
        loads(text)
    assert str(caught.value) == why


@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    """No input does anything but parse or raise ValueError."""
    try:
        value = loads(raw)
    except ValueError:
        return
    assert exact(dumps(value).decode()) == exact(raw.decode().strip(" \t\r\n"))
