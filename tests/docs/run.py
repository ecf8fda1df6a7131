# SPDX-License-Identifier: Apache-2.0
"""Type a document's commands on a node, in their order, and look at what comes of each (scenarios.yaml)."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.docs.commands import Command, Document
from tests.docs.node import Node

WITH_CDI = (
    "podman run --annotation opencgpu.io/mem-container=6 --annotation opencgpu.io/mem-dev=15 "
    "--annotation opencgpu.io/visible-devices=0 --device nvidia.com/gpu=0 IMAGE"
)
# Commands that run for many minutes, or take a network, a GPU or an engine that is not here.
NOT_TYPED = (
    "make demo",
    "make test",
    "make deb",
    "apt-get update",
    "apt-get install ./dist/opencgpu_*_amd64.deb",
    "systemctl restart crio",
    WITH_CDI,
    "cgpu events",
    "cgpu check-driver",
    ".venv/bin/python -m pytest tests/attacks",
    ".venv/bin/python -m pytest tests/attacks -k static_binary",
    "make fuzz SECONDS=60",
)


PACKAGE = f"/opt/opencgpu/lib/python3.{sys.version_info.minor}/site-packages/cgpu"
LENT = "# Node.lend_packages"


@dataclass(frozen=True)
class Expect:
    """Expected result of a command. prints: a pattern that its output has."""

    prints: str = ""
    status: int = 0


@dataclass(frozen=True)
class Scenario:
    """One document. scenarios.yaml explains the fields."""

    skipped: Sequence[str] = ()
    inline: Sequence[str] = ()
    earlier: Sequence[str] = ()
    only: Sequence[str] = ()
    before: Mapping[str, Sequence[str]] = field(default_factory=dict)
    typed: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    expect: Mapping[str, Expect] = field(default_factory=dict)
    shown: Mapping[str, str] = field(default_factory=dict)


def scenario(expect: Mapping[str, str | dict[str, Any]] | None = None, **fields: Any) -> Scenario:
    """Return a document's scenario; an expectation may be a pattern alone."""
    wanted = {
        command: Expect(said) if isinstance(said, str) else Expect(**said)
        for command, said in (expect or {}).items()
    }
    return Scenario(expect=wanted, **fields)


TABLE = yaml.safe_load(Path(__file__).with_name("scenarios.yaml").read_text().replace("PACKAGE", PACKAGE))
SCENARIOS: Mapping[str, Scenario] = {name: scenario(**fields) for name, fields in TABLE.items()}


def typed(found: Document, scenario: Scenario) -> list[Command]:
    """Return the commands of a document that its scenario types, in order."""
    chosen = [one for one in found.commands if one.heading not in scenario.skipped]
    chosen = [
        one
        for one in chosen
        if one.text not in scenario.earlier and one.text in (scenario.only or (one.text,))
    ]
    chosen += [next(one for one in found.inline if one.text == text) for text in scenario.inline]
    return [one for one in chosen if one.text not in NOT_TYPED]


def carry_out(node: Node, found: Document, scenario: Scenario) -> list[str]:
    """Type them; return what is not as the document has it, one entry for each such command."""
    wrong = []
    waiting = dict(scenario.before)
    for command in typed(found, scenario):
        for line in waiting.pop(command.text, ()):
            node.lend_packages() if line == LENT else node.shell(line)
        text = replaced(scenario.typed.get(command.text, command.text), scenario.words)
        done = node.type(text)
        expected = scenario.expect.get(command.text, Expect())
        shows = tuple(replaced(line, scenario.shown) for line in command.shows)
        fault = judged(expected, shows, done.returncode, done.stdout)
        if fault:
            wrong.append(f"{command.place}\n  typed: {text}\n  {fault}\n{done.stdout}")
    return wrong


def replaced(text: str, words: Mapping[str, str]) -> str:
    """Return a command with other words in place of those that stand for the reader's."""
    for word, other in words.items():
        text = re.sub(rf"(?<![\w/.]){re.escape(word)}(?![A-Za-z_.])", other.replace("\\", r"\\"), text)
    return text


def judged(expected: Expect, shows: tuple[str, ...], status: int, printed: str) -> str:
    """Return what is wrong with what a command came to; nothing when all is as it should be."""
    if status != expected.status:
        return f"exit status {status}, expected {expected.status}"
    if expected.prints and not re.search(expected.prints, printed):
        return f"its output has no {expected.prints!r}"
    missing = not_shown(shows, printed)
    return f"the document shows, and it does not print: {missing}" if missing else ""


def not_shown(shows: tuple[str, ...], printed: str) -> str:
    """Return the first line of a document's output whose form no further line has."""
    lines = iter([form(line) for line in printed.splitlines()])
    for line in shows:
        wanted = form(line)
        if wanted and not any(has_form(one, wanted) for one in lines):
            return line
    return ""


def form(line: str) -> str:
    """Return a line with ids and numbers as signs for them, and one blank between words."""
    line = re.sub(r"\b(?:GPU-)?[0-9a-f]{8,64}\b", "ID", line)
    return " ".join(re.sub(r"\d+(?:\.\d+)*", "N", line).split())


def has_form(line: str, wanted: str) -> bool:
    """Say whether a line has a form; three dots stand for any rest."""
    if wanted.endswith(("…", "...")):
        return line.startswith(wanted.rstrip("….").rstrip())
    return line == wanted
