# SPDX-License-Identifier: Apache-2.0
"""cgpu config: `set` changes one value and keeps the rest of the file; `show`, `check` and `explain`."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from cgpu import paths
from cgpu.config import load as config
from cgpu.config.effective import CLOSED
from cgpu.config.schema import schema
from cgpu.errors import CgpuError
from cgpu.install import places
from cgpu.install.commands import config as command
from cgpu.install.commands.config import explanation, main

KEYS = schema()["properties"]
FILE = """\
# What this node is for.
policy:   2   # weights count

allow_disable: no
low_level_runtime: '/usr/bin/crun'  # podman's
max_inst: 20
"""


def values(key: str) -> st.SearchStrategy[object]:
    """Return a strategy for the values that a key accepts."""
    rule = KEYS[key]
    types = [rule["type"]] if isinstance(rule["type"], str) else rule["type"]
    strategies: list[st.SearchStrategy[object]] = []
    if "enum" in rule:
        return st.sampled_from(rule["enum"])
    if "boolean" in types:
        strategies.append(st.booleans())
    if "integer" in types:
        strategies.append(st.integers(rule["minimum"], rule["maximum"]))
    if "string" in types:
        strategies.append(st.from_regex(r"/[A-Za-z0-9_.:#'\" -]{0,40}", fullmatch=True))
    if "null" in types:
        strategies.append(st.none())
    return st.one_of(strategies)


PAIRS = st.sampled_from(sorted(KEYS)).flatmap(lambda key: st.tuples(st.just(key), values(key)))
COMMENTS = st.sampled_from(["", "# a comment: with a colon", "   # indented"])
LINES = st.lists(st.tuples(PAIRS, COMMENTS, st.sampled_from(["", "  # why"])), max_size=6)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return where the command looks for the configuration; the file is not there yet."""
    path = tmp_path / "etc" / "config.yaml"
    monkeypatch.setattr(paths, "CONFIG", str(path))
    monkeypatch.setattr(places, "LOCK", str(tmp_path / "lock"))
    monkeypatch.setattr(paths, "EFFECTIVE", str(tmp_path / "config.json"))
    monkeypatch.setattr(paths, "CONTROL_SOCKET", str(tmp_path / "control.sock"))
    return path


@given(lines=LINES, pair=PAIRS, final_newline=st.booleans())
def test_only_the_value_changes(
    lines: list[tuple[tuple[str, object], str, str]], pair: tuple[str, object], *, final_newline: bool
) -> None:
    """In any valid file with comments, the key gets the new value and all other lines stay as they are."""
    written = {key: value for (key, value), _, _ in lines}
    assume(len(written) == len(lines))
    text = "".join(
        f"{above}\n{key}: {json.dumps(value)}{trailing}\n" for (key, value), above, trailing in lines
    )
    text = text if final_newline else text.removesuffix("\n")
    key, value = pair
    final = {**written, key: value}
    assume(not (final.get("shared_node") and any(final.get(closed) for closed in CLOSED)))
    after = command.replace_value(text, key, value, "file")
    assert yaml.safe_load(after) == {**written, key: value}
    assert config.check(yaml.safe_load(after), "file").to_dict()[key] == value
    others = [line for line in text.splitlines() if not line.startswith(f"{key}:")]
    assert [line for line in after.splitlines() if not line.startswith(f"{key}:")] == others
    # Setting the old value again restores the file, except for quotes around the value.
    if key in written:
        restored = command.replace_value(after, key, written[key], "file")
        assert restored.replace('"', "") == text.replace('"', "")


def test_formatting_stays() -> None:
    """The blanks and the comment of the changed line stay, whatever form the old value had."""
    text = FILE
    for key, value, line in (
        ("policy", 5, "policy:   5   # weights count"),
        ("low_level_runtime", None, "low_level_runtime: null  # podman's"),
        ("max_inst", 12, "max_inst: 12"),
    ):
        text = command.replace_value(text, key, value, "file")
        assert line in text.splitlines()
    assert len(text.splitlines()) == len(FILE.splitlines())


@pytest.mark.parametrize(
    "text",
    [
        "{policy: 1}",
        "policy: &a 1\nmax_inst: *a\n",
        "- policy\n",
        "policy: 1\n---\npolicy: 2\n",
        "policy: [1",
    ],
)
def test_unsupported_files(text: str) -> None:
    """A file in which the key's line cannot be added or replaced is refused."""
    with pytest.raises(CgpuError, match=r"file:(\d+:)? "):
        command.replace_value(text, "prio_ratio" if text.startswith("{") else "max_inst", 12, "file")


@pytest.mark.parametrize(
    "text", ["{policy: 1}", "policy:\n  1\n", "policy: >-\n  1\n", "policy:", '"policy": 1']
)
def test_unusual_forms_of_a_key(text: str) -> None:
    """A key that is written in an unusual form gets the new value, or the file is refused."""
    try:
        after = command.replace_value(text, "policy", 3, "file")
    except CgpuError:
        return
    assert yaml.safe_load(after) == {"policy": 3}


def test_set(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`set` makes the file, keeps its mode, and prints the command that puts the value in force."""
    assert main(["set", "policy", "2"]) == 0
    assert file.read_text() == "policy: 2\n"
    assert "to put it in force: cgpu config set policy 2 --apply\n" in capsys.readouterr().out
    assert main(["set", "hook_timeout", "2"]) == 0
    assert f"to put it in force: {paths.config_command('reload')}\n" in capsys.readouterr().out
    file.write_text(FILE)
    file.chmod(0o640)
    assert main(["set", "workers", "2"]) == 0
    assert file.read_text() == FILE + "workers: 2\n"
    assert file.stat().st_mode & 0o7777 == 0o640
    assert f"to put it in force: {paths.config_command('restart')}" in capsys.readouterr().out
    assert [path.name for path in file.parent.iterdir()] == ["config.yaml"]


def test_set_through_a_symbolic_link(file: Path, tmp_path: Path) -> None:
    """A symbolic link stays; the file that it leads to is changed."""
    real = tmp_path / "real.yaml"
    real.write_text("policy: 1\n")
    file.parent.mkdir()
    file.symlink_to(real)
    assert main(["set", "policy", "2"]) == 0
    assert file.is_symlink()
    assert real.read_text() == "policy: 2\n"


def test_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown key or an invalid value is refused with one line, and no file is written."""
    large = "prio_ratio: a very large number: expected a whole number from 20 to 99"
    for key, value, line in (
        ("allow_disable", "maybe", "allow_disable: maybe: expected true or false (default true)"),
        ("nothing", "1", "nothing: there is no such key; every key: cgpu config explain"),
        ("polcy", "1", "polcy: there is no such key; did you mean policy? every key: "),
        ("policy", "9", "policy 9 does not exist; expected 0 (fair share), 1 (preemptive), 2 "),
        ("tree", "relative", "tree: relative: expected an absolute path or null"),
        ("tree", "2026-13-45", "tree: 2026-13-45: is no value; see: cgpu config explain tree"),
        ("tree", "[" * 3000, f"tree: {'[' * 64}...: is no value; see: cgpu config explain tree"),
        ("policy", "!!int x", "policy: !!int x: is no value; see: cgpu config explain policy"),
        ("prio_ratio", "9" * 4000, large),
    ):
        assert main(["set", key, value]) == 1
        error = capsys.readouterr().err
        assert line in error
        assert error.count("\n") == 1
        assert not file.exists()


TAGS = r"(!!(bool|int|float|null|binary|timestamp|merge|value|map|seq|set|omap|pairs) )?"


@given(
    word=st.one_of(st.text(), st.from_regex(TAGS + r"[0-9a-fxTZ_:.+'\"\[\]{}&*<=\\ -]{0,9}", fullmatch=True))
)
def test_any_word(word: str) -> None:
    """Any text is accepted as a value, or refused with one printable line."""
    try:
        config.check({"tree": command.parse_value(word, "tree")}, "file")
    except CgpuError as error:
        message = str(error)
    else:
        message = "valid"
    assert message.isprintable()


def test_an_invalid_file_is_not_changed(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file with an invalid value of another key is refused, as the engine refuses it, and not written."""
    file.parent.mkdir()
    file.write_text("policy: 9\n")
    assert main(["set", "max_inst", "3"]) == 1
    assert "config.yaml:1: policy 9 does not exist" in capsys.readouterr().err
    assert file.read_text() == "policy: 9\n"


def test_a_failed_write_leaves_the_file(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When fsync() fails with ENOSPC, the old file is complete and no temporary file is left beside it."""
    file.parent.mkdir()
    file.write_text(FILE)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert main(["set", "policy", "3"]) == 1
    assert file.read_text() == FILE
    assert [path.name for path in file.parent.iterdir()] == ["config.yaml"]


def test_apply_without_an_engine(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without an engine `set --apply` fails and says so; the file has the new value all the same."""
    assert main(["set", "policy", "3", "--apply"]) == 1
    assert "the engine is not running; what" in capsys.readouterr().err
    assert file.read_text() == "policy: 3\n"


def test_show(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`show` prints every key with its value, the source of the value, and whether it is in force."""
    file.parent.mkdir()
    file.write_text(FILE)
    config.write_effective(config.load(file).replace(policy=1), tmp_path / "config.json")
    assert main(["show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "policy: 2  # not in force: cgpu config set policy VALUE --apply" in lines
    assert "max_inst: 20" in lines
    assert "prio_ratio: 80  # default" in lines
    assert main(["show", "--json"]) == 0
    keys = json.loads(capsys.readouterr().out)["keys"]
    assert keys["policy"] == {"value": 2, "from": "file", "in_force": False}
    assert set(keys) == set(KEYS)


def test_check(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`check` accepts a missing default file; it refuses a named file that is invalid or missing."""
    assert main(["check"]) == 0
    assert "defaults" in capsys.readouterr().out
    other = tmp_path / "other.yaml"
    other.write_text("policy: 9\n")
    assert main(["check", str(other)]) == 1
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["check", str(tmp_path / "none.yaml")]) == 1


def test_explain(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`explain` prints description and default of every key of the schema, and refuses an unknown key."""
    assert main(["explain"]) == 0
    printed = capsys.readouterr().out
    for key, rule in KEYS.items():
        assert explanation(key) in printed
        assert rule["description"] in explanation(key)
        assert json.dumps(rule["default"]) in explanation(key)
    assert main(["explain", "nothing"]) == 1


def test_concurrent_sets(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Concurrent `set` commands do not undo each other's changes."""
    wanted = {"policy": 2, "hook_timeout": 3, "max_inst": 7, "allow_disable": True}
    replace_value = command.replace_value

    def slowly(text: str, key: str, value: object, source: str) -> str:
        time.sleep(0.05)
        return replace_value(text, key, value, source)

    monkeypatch.setattr(command, "replace_value", slowly)
    words = [["set", key, json.dumps(value)] for key, value in wanted.items()]
    with ThreadPoolExecutor(len(words)) as pool:
        assert list(pool.map(main, words)) == [0] * len(words)
    assert yaml.safe_load(file.read_text()) == wanted
