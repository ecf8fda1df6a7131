# SPDX-License-Identifier: Apache-2.0
"""State, specification and the JSON reader, with good, bad and arbitrary input."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu import fastjson
from cgpu.errors import CgpuError
from cgpu.hook.spec import read_spec
from cgpu.hook.state import parse_state, read_state
from tests.refusal import refused

STATE: dict[str, Any] = {"ociVersion": "1.0.2", "id": "c1", "status": "created", "pid": 7, "bundle": "/b"}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)

# --- the JSON reader ---


json_texts = st.builds(
    lambda value, plain, indent: f" \n{json.dumps(value, ensure_ascii=plain, indent=indent)}\t",
    json_values,
    st.booleans(),
    st.sampled_from([None, 2]),
)


@given(
    st.binary(max_size=40)
    | st.text(alphabet='{}[]",:0123456789eE+-.truefalsn\\u ', max_size=30).map(str.encode)
    | json_texts.map(str.encode)
)
def test_agrees_with_json(raw: bytes) -> None:
    """Any text is read as the standard library reads it, or raises ValueError as it does there."""
    try:
        expected = json.loads(raw.decode("utf-8"), parse_constant=fastjson.refuse_constant)
    except ValueError:
        with pytest.raises(ValueError, match=r".*"):
            fastjson.loads(raw)
    else:
        assert fastjson.loads(raw) == expected


def test_without_scanner(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter without the C scanner falls back to the json package."""
    monkeypatch.setitem(sys.modules, "_json", None)
    assert fastjson.loads(b'{"a": [1]}') == {"a": [1]}


@pytest.mark.parametrize(
    "raw", [b"", b" ", b"NaN", b"[1] 2", b"\xff", b"[" * 100000, b"1" * 5000, b"\xef\xbb\xbf1"]
)
def test_json_refused(raw: bytes) -> None:
    """Bytes that are not one JSON text in UTF-8, or endless nesting or digits, raise ValueError."""
    with pytest.raises(ValueError, match=r".*"):
        fastjson.loads(raw)


# --- the state ---


@pytest.mark.parametrize(
    "document",
    [
        STATE,
        {**STATE, "ociVersion": "1.0.2-dev", "root": "/r", "annotations": {"a": "b"}},
        {"ociVersion": "0.6.0-dev", "id": "c1", "pid": 7, "bundlePath": "/b"},
        {"version": "0.5.0", "id": "c1", "pid": 7, "bundlePath": "/b", "future": {"x": [1]}},
    ],
)
def test_states(document: dict[str, object]) -> None:
    """States of all versions are read; unknown fields are let be; a stopped one may lack pid and bundle."""
    state = parse_state(json.dumps(document).encode())
    assert (state.id, state.pid, state.bundle) == ("c1", 7, "/b")
    state = parse_state(b'{"id": "c1", "status": "stopped"}')
    assert (state.id, state.pid, state.bundle) == ("c1", 0, "")


PID = "expected a whole number from 0 to 4194304"
PIDS = {b'"7"': "7", b"-1": "-1", b"true": "True", b"1.5": "1.5", b"null": "None"}
PIDS[b"1" + b"0" * 90] = "a very large number"
HEAD = "state on standard input: "


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        *((raw, "is not JSON (") for raw in (b"", b'{"id": "c1", "pid": 7', b'{"id":"c1"} x', b"\xff")),
        (b"[" * 100000, "is not JSON (nested too deep); expected an OCI state"),
        (b"[]", "a list: expected a JSON object"),
        (b"null", "None: expected a JSON object"),
        (b"{}", "id: None: expected a string"),
        (b'{"id": ""}', "id: : expected a string"),
        (b'{"id": 7}', "id: 7: expected a string"),
        *((b'{"id": "a", "pid": %s}' % pid, f"pid: {shown}: {PID}") for pid, shown in PIDS.items()),
        (b'{"id": "a", "bundle": 5}', "bundle: 5: expected a string"),
    ],
)
def test_bad_state(raw: bytes, why: str) -> None:
    """A state that is none is refused with one line."""
    with refused(f"{HEAD}{why}"):
        parse_state(raw)


@given(json_values)
def test_any_state(value: object) -> None:
    """Any JSON as a state is read or refused, and nothing else happens."""
    fields = value if isinstance(value, dict) else {"id": value, "pid": value, "bundle": value}
    try:
        state = parse_state(json.dumps({**STATE, **fields}).encode())
    except CgpuError:
        return
    assert state.id
    assert 0 <= state.pid <= 1 << 22


def test_state_is_bounded(tmp_path: Path) -> None:
    """A state of more than 1 MiB is refused."""
    path = tmp_path / "state"
    path.write_text(json.dumps({**STATE, "annotations": {"a": "x" * (1 << 20)}}))
    with path.open() as stream, refused(f"{HEAD}cannot be read (File too large)", "at most 1 MiB"):
        read_state(stream.fileno())


# --- the specification ---


def test_specification(tmp_path: Path) -> None:
    """config.json of the bundle is read."""
    (tmp_path / "config.json").write_text('{"process": {"env": ["A=\\u0000"]}}')
    assert read_spec(str(tmp_path)) == {"process": {"env": ["A=\0"]}}


@pytest.mark.parametrize("bundle", ["", ".", "b", "../b", "/a\0b", "/\ud800", "/" + "a/" * 5000])
def test_odd_bundle(bundle: str) -> None:
    """A bundle that is no absolute path, or no possible one, is refused."""
    with refused("" if bundle.startswith("/") else f"bundle {bundle}: ", "expected"):
        read_spec(bundle)


def make_large(path: Path) -> None:
    path.touch()
    os.truncate(path, 17 << 20)


def write(text: str | bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(text.encode() if isinstance(text, str) else text)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (str, "cannot be read (No such file or directory)"),
        (lambda path: path.symlink_to("/etc/hostname"), "cannot be read (Too many levels of symbolic links)"),
        (make_large, "cannot be read (File too large)"),
        (Path.mkdir, "cannot be read (Is a directory)"),
        (os.mkfifo, "is not JSON (Expecting value"),
        (write("[]"), "a list: expected a JSON object"),
        (
            write('{"process": {"env": ["A=1"]}, "process": {}}'),
            "is not JSON (the key process appears twice",
        ),
        (write('{"process": {'), "is not JSON (Expecting property name"),
        (write(b'{"a": "\xff"}'), "is not JSON (not UTF-8)"),
    ],
)
def test_bad_specification(make: Any, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing, linked, oversized, special or broken config.json is refused with one line."""
    monkeypatch.setattr("cgpu.errors.SHOWN", 200)
    make(tmp_path / "config.json")
    with refused(f"{tmp_path}/config.json: {why}"):
        read_spec(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "key", "name"),
    [
        ('{"Process": {}}', "Process", "process"),
        ('{"proce\u017fs": {}}', "proce\\u017fs", "process"),
        ('{"ANNOTATIONS": 1}', "ANNOTATIONS", "annotations"),
        ('{"process": {"Env": []}}', "Env", "env"),
    ],
)
def test_spelling(text: str, key: str, name: str, tmp_path: Path) -> None:
    """A field that a runtime may read and the hook would not is refused."""
    (tmp_path / "config.json").write_text(text)
    with refused(f"config.json: the field {key} could be taken for {name}"):
        read_spec(str(tmp_path))
