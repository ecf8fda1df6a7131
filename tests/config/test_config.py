# SPDX-License-Identifier: Apache-2.0
"""The configuration: the file, its schema, and the hook's file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from cgpu import paths
from cgpu.config import effective
from cgpu.config import load as config
from cgpu.config.effective import DEFAULTS, Effective
from cgpu.config.schema import schema
from cgpu.errors import CgpuError
from cgpu.kmod.abi import config_defaults
from tests.refusal import refused

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"


def load_text(text: str, tmp_path: Path) -> Effective:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return config.load(path)


def test_schema() -> None:
    """The schema is valid, and its keys and defaults are those of the fast reader."""
    Draft202012Validator.check_schema(schema())
    properties = schema()["properties"]
    assert {key: rule["default"] for key, rule in properties.items()} == DEFAULTS
    assert list(properties) == list(DEFAULTS)
    assert Draft202012Validator(schema()).is_valid(DEFAULTS)
    reader = Path(effective.__file__).read_text()
    assert config_defaults.rewritten(reader, properties) == reader, "make it anew: see CONTRIBUTING.md"


def test_documented() -> None:
    """The document names every key; the manual page, which it links to, is made of the schema."""
    text = DOCUMENT.read_text()
    assert [key for key in schema()["properties"] if f"`{key}`" not in text] == []
    assert "](man/cgpu-config.yaml.5.md)" in text


def test_settings_that_weaken_a_node_are_asked_for() -> None:
    """Settings that weaken a node are off by default, but for those that shared_node closes."""
    said = Effective()
    weak = (said.pod_variables, said.allow_claim_priority, said.allow_privileged)
    assert not any(weak)
    assert all((said.enforce, said.count_pages, said.supervise_shared_mappings))
    assert said.show_slices == "root"


def test_shared_node(tmp_path: Path) -> None:
    """shared_node switches off what it closes, also where the hook reads it, and refuses the opposite."""
    loaded = load_text("shared_node: true\n", tmp_path)
    assert not loaded.allow_environment
    assert not loaded.allow_disable
    assert not loaded.replace(allow_environment=True, allow_disable=True).allow_disable
    assert not effective._from_document("x", {"shared_node": True, "allow_disable": True}).allow_disable
    for key in effective.CLOSED:
        with refused(f"{tmp_path}/config.yaml:1: {key}: true: shared_node: true forbids it"):
            load_text(f"{key}: true\nshared_node: true\n", tmp_path)
        assert load_text(f"{key}: false\nshared_node: true\n", tmp_path).shared_node


def test_values(tmp_path: Path) -> None:
    """Given values replace defaults, also through a link; without any these apply."""
    loaded = load_text(
        "max_inst: 25.0\ntree: /run/other\nallow_environment: no\nmax_schd_weight: null\n", tmp_path
    )
    assert loaded.to_dict() == {**DEFAULTS, "max_inst": 25, "tree": "/run/other", "allow_environment": False}
    assert type(loaded.max_inst) is int
    (tmp_path / "link").symlink_to(tmp_path / "config.yaml")
    assert config.load(tmp_path / "link").to_dict() == loaded.to_dict()
    for text in ("", "# nothing\n", "---\n", "{}"):
        assert load_text(text, tmp_path).to_dict() == DEFAULTS
    assert config.load(tmp_path / "none").to_dict() == DEFAULTS
    # A file that was named has to be there.
    with refused(f"{tmp_path}/none: there is no such file; expected the path of a configuration"):
        config.load(tmp_path / "none", required=True)


SLICE = "expected a whole number from 100 to 100000, in microseconds"
WORKERS = "expected a whole number from 0 to 64"
ABSOLUTE = "expected an absolute path or null"
NOT_YAML = " is not YAML"
NO_KEY = "there is no such key"
LAUGHS = "l0: &l0 [x]\n" + "".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 9)}]\n" for i in range(1, 30))


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("\n1: 5", (f"2: 1: 5: {NO_KEY}",)),
        ("slice_us: 99", (f"1: slice_us: 99: {SLICE}",)),
        ('tree: "/x\\n"', (f"1: tree: /x\\n: {ABSOLUTE}",)),
        ("max_schd_weight: 0", ("1: max_schd_weight: 0: expected a whole number from 1 to 25 or null",)),
        ("workers: {a: 1}", (f"1: workers: an object: {WORKERS}",)),
        ("workers: .nan", (f"1: workers: nan: {WORKERS}",)),
        ("workers: 1e400", (f"1: workers: 1e400: {WORKERS}",)),
        ("workers: 010", (f"1: workers: 010: {WORKERS}",)),
        ("workers: 0x10", (f"1: workers: 0x10: {WORKERS}",)),
        ("workers: -0b1", (f"1: workers: -0b1: {WORKERS}",)),
        ("workers: 1_0", (f"1: workers: 1_0: {WORKERS}",)),
        ("workers: 1_0.0", (f"1: workers: 1_0.0: {WORKERS}",)),
        ("workers: !!int 0x10", (f"1: workers: 0x10: {WORKERS}",)),
        ("slice_us: 1:30:00", (f"1: slice_us: 1:30:00: {SLICE}",)),
        ("slice_us: 1:30:00.0", (f"1: slice_us: 1:30:00.0: {SLICE}",)),
        ("workers: 2020-01-01", (f"1: workers: an object: {WORKERS}",)),
        (f"policy: {'9' * 4000}", ("1: policy a very large number does not exist",)),
        ('tree: "/\\ud800"', (f"1: tree: /\\ud800: {ABSOLUTE}",)),
        ("enforce: !!bool maybe", (NOT_YAML,)),
        ("- 1", (" a list: expected lines of the form KEY: VALUE",)),
        ("policy: [1", (f"1:{NOT_YAML}", "expected ',' or ']'")),
        ("a: !!python/name:os.system", (f"1:{NOT_YAML}", "could not determine a constructor")),
        ("? [a]\n: 1", (f"1:{NOT_YAML}", "unhashable key")),
        ("a: 1\n--- \nb: 2", (f"2:{NOT_YAML}", "another document")),
        # A list of lists of lists by reference, which no reader expands.
        (LAUGHS, (f"1: l0: a list: {NO_KEY}",)),
    ],
)
def test_refused(text: str, parts: tuple[str, ...], tmp_path: Path) -> None:
    """A file that is wrong is refused by place, key and value; tests/messages has what people type."""
    with refused(f"{tmp_path}/config.yaml:{parts[0]}", *parts[1:]):
        load_text(text, tmp_path)


@pytest.mark.parametrize("raw", [b"\xff\xfe\xfd", b"a: \x00", b"[" * 2000, b"x" * ((1 << 20) + 1), b"\x80"])
def test_hostile_file(raw: bytes, tmp_path: Path) -> None:
    """Bytes that are no YAML, nest without end, or are too many are refused, and so is a link to itself."""
    (tmp_path / "config.yaml").write_bytes(raw)
    (tmp_path / "c").symlink_to(tmp_path / "c")
    for name in ("config.yaml", "c"):
        with refused(f"{tmp_path}/{name}:"):
            config.load(tmp_path / name)


KINDS = "bool int float null str binary timestamp merge value map seq set omap pairs python/name:os"
tags = st.sampled_from(["", "! ", "!x ", *(f"!!{kind} " for kind in KINDS.split())])
words = st.one_of(
    st.text("0123456789abefxTZ_.:+-~ \"'\\/[]{}?&*<=,", max_size=12),
    st.text(max_size=6),
    st.sampled_from(["maybe", "2026-13-45", "0001-01-01 00:00:00 +23:00", '"/\\ud800"']),
    st.sampled_from([1, 33, 4400]).map(lambda digits: "0x" + "f" * digits),
    st.integers(0, 300).map(lambda parts: "59" + ":59" * parts + ".5"),
)
keys = st.one_of(st.sampled_from([*DEFAULTS, "<<", "="]), words)
lines = st.builds("{}{}: {}{}".format, st.one_of(st.just(""), tags), keys, tags, words)
texts = st.one_of(st.text(), tags.flatmap(lambda tag: words.map(lambda word: tag + word)), lines)


@given(st.lists(texts, max_size=3).map("\n".join))
def test_any_text(text: str) -> None:
    """Any file is a configuration or refused with one line."""
    try:
        loaded = config.check(config.parse(text.encode("utf-8", "surrogatepass"), "x"), "x")
    except CgpuError as error:
        said = str(error)
    else:
        said = ""
        written = json.dumps(loaded.to_dict())
        assert effective._from_document("x", json.loads(written)).to_dict() == loaded.to_dict()
        os.fsencode(f"{loaded.tree}{loaded.low_level_runtime}")
    assert said.isprintable()


values = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 30), st.sampled_from(["/x", "info", "x", 5.0, 0.5])
)


@given(st.dictionaries(st.sampled_from([*DEFAULTS, "other"]), values, max_size=6))
def test_agrees_with_schema(document: dict[str, Any]) -> None:
    """The loader takes what the schema accepts and nothing else; the hook's reader has the same values."""
    valid = Draft202012Validator(schema()).is_valid(document)
    try:
        loaded = config.check(yaml.safe_load(yaml.safe_dump(document)), "x")
    except CgpuError:
        assert not valid
    else:
        assert valid
        closed = dict.fromkeys(effective.CLOSED, False) if document.get("shared_node") else {}
        assert loaded.to_dict() == {**DEFAULTS, **document, **closed}
        written = json.loads(json.dumps(loaded.to_dict()))
        assert effective._from_document("x", written).to_dict() == loaded.to_dict()


def test_effective(tmp_path: Path) -> None:
    """The effective file is written at once, for root only, and read back the same, or the defaults apply."""
    path = tmp_path / "config.json"
    assert effective.load(str(path)).to_dict() == DEFAULTS
    path.write_text("old")
    config.write_effective(Effective(max_inst=7), path)
    assert path.stat().st_mode & 0o7777 == 0o600
    assert effective.load(str(path)).to_dict() == {**DEFAULTS, "max_inst": 7}
    assert list(tmp_path.iterdir()) == [path]


def test_effective_not_written(tmp_path: Path) -> None:
    """A directory that is not there is named, and a failed write leaves nothing behind."""
    (tmp_path / "config.json").mkdir()
    for name, why in (("none/config.json", "No such file or directory"), ("config.json", "Is a directory")):
        with refused(f"{tmp_path}/{name}: cannot be written: {why}"):
            config.write_effective(Effective(), tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not JSON"),
        ("[]", "must hold a JSON object"),
        ('{"x": 1}', "x: 1: expected keys and types of cgpu-config.yaml(5)"),
        ('{"tree": 1}', "tree: 1: expected keys"),
        ('{"enforce": null}', "enforce: None: expected keys"),
        ('{"max_inst": true}', "max_inst: True: expected keys"),
        ('{"allow_disable": 1}', "allow_disable: 1: expected keys"),
    ],
)
def test_effective_refused(text: str, why: str, tmp_path: Path) -> None:
    """An effective file that is not what the engine writes is refused, and the line says how to renew it."""
    path = tmp_path / "config.json"
    path.write_text(text)
    with refused(f"{path}: {why}", f"write it anew: {paths.daemon_command('restart')}"):
        effective.load(str(path))
    # The file is never read through a link.
    (tmp_path / "link").symlink_to("/etc/hostname")
    with refused(f"{tmp_path}/link: cannot be read (Too many levels of symbolic links)"):
        effective.load(str(tmp_path / "link"))


@pytest.mark.root
@pytest.mark.parametrize(
    ("inside", "says"),
    [([], "only root reaches the engine"), (["unshare", "-Ur"], "a rootless container engine has no slices")],
)
def test_who_may_not_read_it(tmp_path: Path, inside: list[str], says: str) -> None:
    """A user is told to be root, and root of a user namespace what is at fault: the container engine."""
    file = tmp_path / "config.json"
    file.write_text("{}")
    file.chmod(0o600)
    read = f"from cgpu.config import effective; effective.load({str(file)!r})"
    command = [*inside, sys.executable, "-c", read]
    done = subprocess.run(command, user=65534, capture_output=True, text=True, check=False)
    assert f"cannot be read (Permission denied): {says}" in done.stderr


def test_commands_fit_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages name systemctl only where systemd runs and has the unit; elsewhere cgpud's own commands."""
    unit = tmp_path / "cgpud.service"
    monkeypatch.setattr(paths, "SYSTEMD", str(tmp_path))
    monkeypatch.setattr(paths, "UNITS", (str(unit),))
    assert paths.daemon_command("start") == "cgpud"
    assert paths.daemon_command("reload") == "kill -HUP $(cat /run/cgpu/cgpud.pid)"
    unit.touch()
    assert paths.daemon_command("restart") == "systemctl restart cgpud"
    by_hand = tmp_path / "command"
    by_hand.write_text("cgpud --simulate T4\n")
    monkeypatch.setattr(paths, "COMMAND", str(by_hand))
    assert paths.daemon_command("restart") == "cgpud --stop; cgpud --simulate T4"
    assert paths.daemon_command("reload") == "kill -HUP $(cat /run/cgpu/cgpud.pid)"


def test_not_started_since_boot(tmp_path: Path) -> None:
    """A configuration that no engine has read yet refuses containers with GPUs; without one all start."""
    source, read = tmp_path / "config.yaml", tmp_path / "config.json"
    effective.check_started(str(read), str(source))
    source.touch()
    with refused(f"{source}: no engine has read it since"):
        effective.check_started(str(read), str(source))
    read.touch()
    effective.check_started(str(read), str(source))


def test_parameters_of_the_module_say_the_same() -> None:
    """Default and bounds that modinfo tells of a parameter are generated from the schema."""
    source = (DOCUMENT.parents[1] / "kmod/module/engine/settings.c").read_text()
    told = dict(re.findall(r"MODULE_PARM_DESC\(\s*(\w+),(.*?)\);\n", source, re.DOTALL))
    keys = told.keys() & DEFAULTS.keys()
    assert {"policy", "max_inst", "prio_ratio", "slice_us", "context_memory", "drift_tolerance"} <= keys
    for key in keys:
        texts = {f"CGPU_CONFIG_{key.upper()}_{of}_TEXT" for of in ("DEFAULT", "BOUNDS")}
        used = set(re.findall(r"CGPU_CONFIG_\w+", told[key]))
        assert f"CGPU_CONFIG_{key.upper()}_DEFAULT_TEXT" in used <= texts, key
        assert not re.search(r"default \w|\d to \d", told[key]), key
