# SPDX-License-Identifier: Apache-2.0
"""The documents state what the code does, and the tests that they name exist."""

from __future__ import annotations

import argparse
import ast
import re
from pathlib import Path

import pytest

from cgpu import paths
from cgpu.client.stat import CALL_REASONS, MEMORY_REASONS, OUTCOMES
from cgpu.install import places
from cgpu.install.commands.install import parser as install_parser
from cgpu.install.commands.uninstall import parser as uninstall_parser
from cgpu.install.commands.upgrade.main import parser as upgrade_parser
from cgpu.slice import ATTRIBUTES

ROW = re.compile(r"^\|(.+)\|$", re.MULTILINE)
# An item of a list: names, the mode of an entry, text.
ITEM = re.compile(r"^- ([^:]+?)(?:, (0\d{3}|directory))?: ((?:.|\n(?!- |\n))*)", re.MULTILINE)
NODE = re.compile(r'\{ "(\w+)", CORE_LEVEL_(\w+), (0\d+),')
# A path of the project in a document. Names in capitals are placeholders; files in kmod/build are made.
NAMED_PATH = re.compile(
    r"`((?:benchmarks|cgpu|docs|examples|hook|install|kmod|runtime_config|scripts|tests)/[a-z0-9_./-]+)`"
)
# A key of a line of words, in the C source that writes it.
KEY = re.compile(r'\{ "(\w+)", |\] = "(\w+)"|" ?(\w+)="')
MADE = "kmod/build/"
LEVELS = {"Root": "ROOT", "GPU directory": "GPU", "Container directory": "CONTAINER"}


def rows(text: str) -> list[list[str]]:
    """Return the cells of every table row, without headings and rules."""
    cells = [[cell.strip() for cell in line.split("|")] for line in ROW.findall(text)]
    return [row for row in cells if not set(row[0]) <= set("-")]


def section(text: str, heading: str) -> str:
    """Return the text under a heading of the second level."""
    return text.split(f"\n## {heading}\n")[1].split("\n## ", maxsplit=1)[0]


def test_tree(repository: Path) -> None:
    """The document lists every node of the tree with its mode."""
    document = (repository / "docs" / "tree.md").read_text()
    real = {(level, name, mode) for name, level, mode in NODE.findall(nodes(repository))}
    real |= {("CONTAINER", one.name, "0644") for one in ATTRIBUTES}
    stated = {
        (level, name, mode)
        for heading, level in LEVELS.items()
        for names, mode, _ in ITEM.findall(section(document, heading))
        for name in re.findall(r"`(\w+)`", names)
        if mode.startswith("0")
    }
    assert stated == real


def test_counters(repository: Path) -> None:
    """The document explains each key of the entries `stat`, and no other."""
    document = section((repository / "docs" / "tree.md").read_text(), "Counters")
    keys = document.split("\n`throttled` is what")[0]
    stated = {key for names, _, _ in ITEM.findall(keys) for key in re.findall(r"`(\w+)`", names)}
    source = (repository / "kmod" / "core" / "tree" / "stat.c").read_text()
    found = KEY.findall(source.replace(function(source, "core_stat_gpus_text"), ""))
    of_cgpud = (repository / "kmod" / "daemon" / "libcgpud" / "stat.c").read_text()
    queues = set(re.findall(r'add_word\(out, "(\w+)"', of_cgpud))
    times = {f"{outcome}_{what}" for outcome in OUTCOMES for what in ("ns", "times")}
    attributes = {one.name for one in ATTRIBUTES}
    assert stated == {"".join(groups) for groups in found} | attributes | queues | times


def test_gpus(repository: Path) -> None:
    """The document explains each key of the entry `gpus`, and no other."""
    root = section((repository / "docs" / "tree.md").read_text(), "Root")
    told = {names: text for names, _, text in ITEM.findall(root)}
    source = (repository / "kmod" / "core" / "tree" / "stat.c").read_text()
    found = {"".join(groups) for groups in KEY.findall(function(source, "core_stat_gpus_text"))}
    assert set(re.findall(r"`(\w+)`", told["`gpus`"])) == found


def function(source: str, name: str) -> str:
    return source[source.index(f"\nint {name}(") :].split("\n}\n", maxsplit=1)[0]


def nodes(repository: Path) -> str:
    return (repository / "kmod" / "core" / "tree" / "nodes.c").read_text()


def test_smi_keys(repository: Path) -> None:
    """The document has each key of JSON."""
    document = (repository / "docs/commands/cgpu-smi.md").read_text()
    keys = set(re.findall(r'"(\w+)":', (repository / "tests/smi/golden/look.json").read_text()))
    reasons = {*MEMORY_REASONS, *CALL_REASONS}
    assert [key for key in keys - reasons if f"`{key}`" not in section(document, "JSON")] == []


@pytest.mark.parametrize(
    ("heading", "parser"),
    [
        ("Upgrade", upgrade_parser()),
        ("Set up the node", install_parser()),
        ("Uninstall", uninstall_parser()),
    ],
    ids=["upgrade", "install", "uninstall"],
)
def test_options(repository: Path, heading: str, parser: argparse.ArgumentParser) -> None:
    """The document of a command names every option that its help names."""
    text = section((repository / "docs/install.md").read_text(), heading)
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS]
    options = {name for action in shown for name in action.option_strings}
    assert {name for name in options if name not in text} <= {"-h", "--help", "--version"}


def test_install_files(repository: Path) -> None:
    """The document names each file that cgpu install makes."""
    document = (repository / "docs/install.md").read_text()
    named = (places.UNITS, places.MODULES_LOAD, places.MODPROBE, places.RECORD, paths.CONFIG, paths.DRAINING)
    assert [path for path in named if path not in document] == []


ATTACKS = re.compile(r"^## What a hostile container cannot do\n(.*?)^## ", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`(?:tests/)?([a-z_/]+(?:\.py|\.c)?)(?:::(\w+))?`")
NAMED_IN_TEXT = re.compile(r"`(?:tests/)?([a-z_/]+\.py)(?:::(\w+))?`")


def attacks(text: str) -> list[list[str]]:
    """Return the cells of each row of the threat model's tables of attacks."""
    found = ATTACKS.search(text)
    assert found is not None
    lines = [line for line in found.group(1).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if "shown by" not in line]


def functions(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


def test_named_tests_exist(repository: Path) -> None:
    """Each attack of the threat model names tests, and each test that the page names is there."""
    text = (repository / "docs/threat-model.md").read_text()
    named = NAMED_IN_TEXT.findall(text)
    for attack, _, tests in attacks(text):
        found = NAMED.findall(tests)
        assert len(found) == tests.count("`") / 2 > 0, attack
        named += found
    missing = []
    for name, function in named:
        path = repository / "tests" / name
        if not path.exists() or (function and function not in functions(path)):
            missing.append(f"{name}::{function}")
    assert missing == []


def test_named_paths_exist(repository: Path) -> None:
    """Each file or folder of the project that a document names is there."""
    documents = [
        repository / "README.md",
        repository / "CONTRIBUTING.md",
        *(repository / "docs").rglob("*.md"),
    ]
    named = {
        (document.name, path)
        for document in documents
        for path in NAMED_PATH.findall(document.read_text())
        if not path.startswith(MADE)
    }
    assert len(named) > 100
    assert [one for one in sorted(named) if not (repository / one[1]).exists()] == []
