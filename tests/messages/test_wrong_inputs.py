# SPDX-License-Identifier: Apache-2.0
"""Wrong inputs that people type, and that the one line which answers each leads to the right one."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cgpu import main as cgpu
from cgpu.client.tree import Gpu
from cgpu.config import refused
from cgpu.config.effective import Effective
from cgpu.config.load import check_bytes
from cgpu.errors import CgpuError
from cgpu.install.packaging import parsers
from cgpu.kmod.daemon import main as cgpud
from cgpu.kubernetes.main import part
from cgpu.run.main import parse
from cgpu.run.resolve import resolve
from cgpu.runtime_config import main as runtime_config
from cgpu.smi import main as smi
from tests.client.support import MIB, T4
from tests.exporter.trees import FakeTree, gpu_line
from tests.request.support import allocate, spec

Row = dict[str, Any]
ROWS: list[Row] = yaml.safe_load((Path(__file__).parent / "wrong_inputs.yaml").read_text())
PROGRAMS: dict[str, Callable[[list[str]], int]] = {
    "cgpu": cgpu.main,
    "cgpud": cgpud.main,
    "cgpu-smi": smi.main,
    "cgpu-runtime-config": runtime_config.main,
    "kubectl-inspect-cgpu": lambda words: part("inspect").main(words, "kubectl-inspect-cgpu"),
}
KINDS = ("environment", "annotations", "run", "yaml", "command")
CONFIG = "/etc/cgpu/config.yaml"
GAP = "…"
LONGEST = 420  # characters: docker prints 200 more before a line


def kind(row: Row) -> str:
    found = [one for one in KINDS if one in row]
    assert len(found) == 1, row["typed"]
    return found[0]


def of(kind_name: str) -> list[Any]:
    return [pytest.param(row, id=row["typed"]) for row in ROWS if kind(row) == kind_name]


def node(row: Row) -> list[Gpu]:
    """Return the cards of a row's node: one T4, or two whose UUIDs begin alike."""
    uuids = [f"GPU-afcd1d7b-{index}000-0000-0000-000000000000" for index in range(2)]
    cards = [Gpu(index, uuid, T4 * MIB, 20) for index, uuid in enumerate(uuids)]
    return cards if row.get("node") == "two" else cards[:1]


def line_of(call: Callable[[], object]) -> str:
    with pytest.raises(CgpuError) as caught:
        call()
    return str(caught.value)


def assert_said(row: Row, line: str, **places: Path) -> None:
    """Compare a line with the row's sentence, or find the row's parts in it, in their order."""
    says: str | list[str] = row["says"]
    parts = says.split(GAP) if isinstance(says, str) else says
    pattern = ".*".join(re.escape(part.format(**places) if places else part) for part in parts)
    compare = re.fullmatch if isinstance(says, str) else re.search
    assert compare(pattern, line), f"said: {line}\nexpected: {says}"
    for place in places.values():
        line = line.replace(str(place), "")
    assert "\n" not in line
    assert len(line) <= LONGEST


def words_of(value: str) -> set[str]:
    return set(re.findall(r"\d+|[A-Za-z]+", value))


def asks(row: Row, asked: dict[str, str]) -> object:
    """Return what a container gets that says this."""
    config = Effective(**row.get("config", {}))
    said = {**row.get("others", {}), **asked}
    document = spec({}, said) if kind(row) == "annotations" else spec(said)
    return allocate(document, node(row), config)


@pytest.mark.parametrize("row", [*of("environment"), *of("annotations")])
def test_containers(row: Row) -> None:
    """The line for a container names the error; the input that it leads to is taken."""
    asked = row[kind(row)]
    line = line_of(lambda: asks(row, asked))
    assert_said(row, line)
    if "then" not in row:
        return
    got = asks(row, {**row["then"]})
    assert (got is None) == (not row["then"])
    for name, value in row["then"].items():
        if asked.get(name) != value:
            assert name in line
            assert words_of(value) <= words_of(line) | words_of(" ".join(asked.values()))


@pytest.mark.parametrize("row", of("run"))
def test_cgpu_run(row: Row) -> None:
    """The line of `cgpu run` names the error; the input that it leads to is taken."""

    def run(words: str) -> object:
        return resolve(parse(words.split()), node(row), Effective())

    line = f"cgpu run: {line_of(lambda: run(row['run']))}"
    assert_said(row, line)
    if "then" in row:
        run(row["then"])
        assert words_of(row["then"]) <= words_of(line) | words_of(row["run"])


@pytest.mark.parametrize("row", of("yaml"))
def test_configuration(row: Row) -> None:
    """The line for a configuration names file, line and key; the input that it leads to is taken."""
    line = line_of(lambda: check_bytes(row["yaml"].encode(), CONFIG))
    assert_said(row, line)
    if "then" in row:
        check_bytes(row["then"].encode(), CONFIG)
        assert words_of(row["then"].partition(":")[2]) <= words_of(line)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Make a tree of plain files, with one card."""
    made = FakeTree(tmp_path / "tree")
    made.gpu(0, gpu_line("GPU-b084ae33-e244-0959-cd97-830000000000"))
    return made.path


@pytest.mark.parametrize("row", of("command"))
def test_commands(
    row: Row, tmp_path: Path, tree: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong command line is answered with one line; the input that it leads to is taken."""
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    # A note of a refused configuration must not reach the runtime of this machine in later tests.
    monkeypatch.setattr(refused, "note", lambda *_: None)
    if "user" in row:
        monkeypatch.setattr(os, "geteuid", lambda: row["user"])
    program, *words = shlex.split(row["command"].format(folder=folder, tree=tree))
    try:
        status: object = PROGRAMS[program](words)
    except SystemExit as end:
        status = end.code
    printed = capsys.readouterr()
    assert status in (1, 2, 125)
    assert printed.err.endswith("\n")
    assert printed.err.count("\n") == 1
    assert_said(row, printed.err.rstrip("\n"), folder=folder, tree=tree)
    if "then" in row:
        assert_parsed(shlex.split(row["then"].format(folder=folder, tree=tree)))
        assert words_of(row["then"]) <= words_of(printed.err) | words_of(row["command"])


def assert_parsed(words: list[str]) -> None:
    """Assert that a command's parser takes a command line."""
    program, *rest = words
    found = parsers.programs()
    parser = found[program] if program != "cgpu" else parsers.subcommands()[rest.pop(0)]
    with contextlib.redirect_stderr(io.StringIO()):
        parser.parse_args(rest)
