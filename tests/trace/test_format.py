# SPDX-License-Identifier: Apache-2.0
"""The parser: any bytes give a trace or one clear error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from cgpu.errors import CgpuError
from cgpu.trace import format as trace_format
from cgpu.trace.format import MAX_LINE, Trace, load, parse, rules, schema
from cgpu.trace.shapes import Shapes

HEADER: dict[str, Any] = {
    "format": "cgpu-trace",
    "version": 1,
    "driver": "580.142",
    "layouts": "580.142",
    "kernel": "6.1.0",
    "machine": "x86_64",
    "command": "probe",
    "notes": {"cuda": "12.4"},
}
BASE: dict[str, Any] = {"t": 5, "pid": 1, "tid": 1}
CALL: dict[str, Any] = {
    **BASE,
    "call": "NV_ESC_RM_FREE",
    "nr": 41,
    "file": 1,
    "fd": 3,
    "size": 16,
    "took": 1,
    "form": "NVOS00_PARAMETERS",
    "in": {"hRoot": 1, "hObjectOld": 2},
    "out": {"status": 0},
    "status": 0,
    "result": 0,
}
OPEN: dict[str, Any] = {**BASE, "call": "open", "file": 1, "fd": 3, "node": "nvidiactl", "result": 3}
CLOSE: dict[str, Any] = {**BASE, "call": "close", "file": 1, "fd": 3, "by": "exit", "last": True}
EXIT: dict[str, Any] = {**BASE, "call": "exit", "status": 0}
NUMBERS = st.integers(-(1 << 70), 1 << 70) | st.sampled_from(
    [-4096, -4095, -2, -1, 0, 1, 2, 127, 128, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 64) - 1, 1 << 64]
)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def lines(*documents: object) -> list[bytes]:
    """Return documents as lines."""
    return [json.dumps(document).encode() + b"\n" for document in documents]


def is_one_line(error: CgpuError) -> bool:
    """Say whether a message is what a person should see."""
    text = str(error)
    return text.isprintable() and "\n" not in text and text.startswith("trace: ") and len(text) < 400


def refusal(given_lines: list[bytes]) -> CgpuError | None:
    """Return why lines are no trace, or None when they are one."""
    try:
        assert isinstance(parse(given_lines, "trace"), Trace)
    except CgpuError as error:
        return error
    return None


@given(st.lists(st.binary(max_size=200), max_size=6))
def test_any_bytes(given_lines: list[bytes]) -> None:
    """Bytes of any kind are refused with one line, or are a trace."""
    error = refusal(given_lines)
    assert error is None or is_one_line(error)


@settings(max_examples=400)
@given(
    st.sampled_from([CALL, OPEN, CLOSE, EXIT]),
    st.dictionaries(
        st.sampled_from([*CALL, *OPEN, *CLOSE, "params", "signal", "abi", "more"]), VALUES, max_size=2
    ),
    st.sets(st.sampled_from(sorted(CALL)), max_size=1),
)
def test_any_event(event: dict[str, Any], changes: dict[str, Any], without: set[str]) -> None:
    """An event is accepted exactly when the schema accepts it, and fractions never."""
    document = {name: value for name, value in (event | changes).items() if name not in without}
    fits = Draft202012Validator(rules("event")).is_valid(document) and not has_float(document)
    error = refusal([*lines(HEADER), json.dumps(document).encode()])
    assert (error is None) == fits
    assert error is None or is_one_line(error)


def has_float(value: object) -> bool:
    """Say whether a fraction is anywhere in a document."""
    if isinstance(value, dict):
        return any(map(has_float, value.values()))
    return any(map(has_float, value)) if isinstance(value, list) else isinstance(value, float)


@given(st.lists(st.tuples(st.sampled_from(sorted(CALL)), NUMBERS), min_size=1, max_size=30))
def test_shapes(changes: list[tuple[str, int]]) -> None:
    """What was learned of one line's shape never lets a wrong one through."""
    shapes, validator = Shapes(rules("event")), Draft202012Validator(rules("event"))
    for name, value in changes:
        document = CALL | {name: value}
        assert (shapes.problem(document) is None) == validator.is_valid(document)


def test_good_trace() -> None:
    """A trace is read into its parts."""
    trace = parse(lines(HEADER, OPEN, CALL, CLOSE, EXIT), "trace")
    assert trace.header.notes == {"cuda": "12.4"}
    opened, call, closed, ended = trace.events
    assert (opened.node, opened.result, opened.is_driver_call) == ("nvidiactl", 3, False)
    assert (call.given["hObjectOld"], call.out, call.status, call.is_driver_call) == (
        2,
        {"status": 0},
        0,
        True,
    )
    assert (closed.by, closed.last, ended.status) == ("exit", True, 0)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"", "is empty"),
        (b"{}\n", "line 1: header: 'format' is a required property"),
        (b'{"a":1,"a":2}\n', "a name is given twice"),
        (b'{"a":1.5}\n', "1.5 is no whole number"),
        (b'{"a":NaN}\n', "NaN is no whole number"),
        (b'{"a":' + b"9" * 5000 + b"}\n", "is no JSON of a trace"),
        (b"[" * 60000 + b"\n", "is no JSON of a trace"),
        (b'{"a":"\xff"}\n', "is no JSON of a trace"),
        (b"x" * (MAX_LINE + 1), "is too long; expected at most 65536 bytes"),
    ],
)
def test_refused_files(tmp_path: Path, line: bytes, message: str) -> None:
    """Each bad beginning has its message, with the file and the line."""
    path = tmp_path / "trace"
    path.write_bytes(line)
    with pytest.raises(CgpuError, match=message) as refused:
        load(path)
    assert str(refused.value).startswith(f"{path}: ")


def test_no_file(tmp_path: Path) -> None:
    """A file that is not there is named."""
    with pytest.raises(CgpuError, match="none: cannot be read: No such file"):
        load(tmp_path / "none")


def test_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """More events than are accepted are refused, and so is time that goes back."""
    with pytest.raises(CgpuError, match="line 3: t: 4: expected no less"):
        parse(lines(HEADER, EXIT, EXIT | {"t": 4}), "trace")
    monkeypatch.setattr(trace_format, "MAX_EVENTS", 1)
    with pytest.raises(CgpuError, match="line 3: is too many; expected at most 1 events"):
        parse(lines(HEADER, EXIT, EXIT), "trace")


def test_schema() -> None:
    """The schema is one, and takes header and event alike."""
    Draft202012Validator.check_schema(schema())
    whole = Draft202012Validator(schema())
    assert all(whole.is_valid(document) for document in (HEADER, OPEN, CALL, CLOSE, EXIT))
    assert not whole.is_valid({})
