# SPDX-License-Identifier: Apache-2.0
"""What the pages on the node's commands state is what the commands do."""

from __future__ import annotations

import argparse
import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from cgpu.config.effective import DEFAULTS
from cgpu.install.checks import DesiredState, preflight
from cgpu.install.commands.config import parser as config_parser
from cgpu.install.commands.doctor import FIXES, examine
from cgpu.install.commands.doctor import parser as doctor_parser
from cgpu.install.commands.gc import parser as gc_parser
from cgpu.install.commands.status import Exit
from cgpu.install.commands.status import parser as status_parser
from cgpu.install.commands.support_bundle import parser as bundle_parser
from cgpu.install.node.report import NodeReport
from tests.install.machine import node, node_report

PARSERS = {
    "doctor": doctor_parser,
    "status": status_parser,
    "gc": gc_parser,
    "config": config_parser,
    "support-bundle": bundle_parser,
}
COMMAND = re.compile(r"^(cgpu (?:doctor|status|gc|config|support-bundle)\b[^#\n]*)", re.MULTILINE)


def pages(repository: Path) -> str:
    """Return the text of the pages."""
    names = ("commands/doctor", "commands/status", "troubleshooting")
    return "".join((repository / "docs" / f"{name}.md").read_text() for name in names)


def names(now: NodeReport) -> set[str]:
    """Return the names of all checks, for either engine."""
    found = {one.name for kind in ("module", "daemon") for one in preflight(now.node, DesiredState(kind))}
    return found | {one.name for kind in ("module", "daemon") for one in examine(replace(now, kind=kind))}


def test_every_check_is_on_the_page(tmp_path: Path, repository: Path) -> None:
    """Each check has a place on the page, and the page names none that is not made."""
    rows = [
        line
        for line in (repository / "docs/commands/doctor.md").read_text().splitlines()
        if line.startswith("| `")
    ]
    made = {re.sub(r"settings-.*", "settings-ENGINE", name) for name in names(node_report(tmp_path))}
    stated = {name for line in rows for name in re.findall(r"`([a-zA-Z-]+)`", line.split("|")[1])}
    assert made <= stated
    documents = {"format", "good", "commands", "counts", "findings", "fixed", "version", "problem", "warning"}
    assert stated - made - documents == {"check-failed", "ok", "skipped"}


def test_what_fix_mends_is_on_the_page(repository: Path) -> None:
    """Each check that --fix acts on is named where the page says what it does."""
    text = (repository / "docs/commands/doctor.md").read_text()
    paragraph = text.split("`--fix` stops no container")[1].split("\n## ")[0]
    assert [name for name in FIXES if f"`{name}`" not in paragraph] == []


def test_every_fix_is_of_a_check(tmp_path: Path) -> None:
    """Nothing is fixed that no check finds."""
    assert set(FIXES) <= names(node_report(tmp_path))


@pytest.mark.parametrize("name", PARSERS)
def test_options(name: str, repository: Path) -> None:
    """Each option and action of a command is on a page."""
    parser = PARSERS[name]()
    subparsers = [one.choices for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    inner = [one for choices in subparsers for one in choices.values()]
    options = {
        option for one in (parser, *inner) for action in one._actions for option in action.option_strings
    }
    text = pages(repository)
    assert {option for option in options if option not in text} <= {"-h", "--help"}
    assert all(f"cgpu config {action}" in text for choices in subparsers for action in choices)


def test_commands_of_the_pages(repository: Path) -> None:
    """Each command line on the pages is one that the commands take."""
    commands = COMMAND.findall(pages(repository))
    assert len(commands) > 12
    for command in commands:
        _, name, *words = shlex.split(command)
        PARSERS[name]().parse_args(words)


def test_commands_that_findings_name(tmp_path: Path) -> None:
    """Each of our commands that a finding advises is one that the commands take."""
    bad = node(tmp_path, driver={"loaded": "999.1", "known": False}, kernel={"loads_modules": False})
    found = [*preflight(bad, DesiredState("module")), *examine(node_report(tmp_path))]
    advised = [line for one in found for line in re.findall(r"cgpu (?:config|gc|doctor)[^;,]*", one.fix)]
    assert advised
    for line in advised:
        _, name, *words = shlex.split(line)
        PARSERS[name]().parse_args(words)


def test_exit_statuses(repository: Path) -> None:
    """The page has each exit status of cgpu status."""
    text = (repository / "docs/commands/status.md").read_text()
    stated = {int(number) for number in re.findall(r"^\| (\d) \|", text, re.MULTILINE)}
    assert stated == {int(one) for one in Exit} | {2}


def test_keys_that_are_named(repository: Path) -> None:
    """Keys of the configuration in commands of the pages are keys."""
    found = re.findall(r"cgpu config (?:set|explain) ([a-z_]+)", pages(repository))
    assert found
    assert set(found) <= set(DEFAULTS)
