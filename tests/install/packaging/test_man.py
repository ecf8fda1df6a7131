# SPDX-License-Identifier: Apache-2.0
"""The manual pages agree with the parsers and the schema, and man shows them without warnings."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from cgpu.config.schema import SCHEMA
from cgpu.hook.main import USAGE
from cgpu.install.packaging.man import mark, shipped
from cgpu.main import SUBCOMMANDS


@pytest.fixture(scope="module")
def pages(repository: Path) -> dict[str, str]:
    """Return the plain text of each page as man shows it, by the name of the page."""
    return {path.name: rendered(path) for path in (repository / "docs/man/roff").rglob("*.[0-9]")}


def rendered(page: Path) -> str:
    """Return the plain text of a page as man shows it. man must print no warning."""
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "MANWIDTH": "1000", "MANROFFOPT": "-c"}
    command = ["man", "--warnings", "--local-file", "--pager", "cat", str(page)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    # man prints a bold letter as letter, backspace, letter.
    return re.sub(".\b", "", done.stdout)


def test_pages_are_current(repository: Path) -> None:
    """The pages are made of the texts, options and keys that there are now: make man."""
    wanted = shipped(repository / "docs/man")
    found = {path: path.read_text() for path in (repository / "docs/man/roff").rglob("*.[0-9]")}
    assert sorted(found) == sorted(wanted)
    stale = [path.name for path, text in wanted.items() if not found[path].endswith("\n" + mark(text))]
    assert stale == [], "make man"


def test_pages_have_the_parsers_options(repository: Path) -> None:
    """The text of a command's page has the place for the options and usage that its parser gives."""
    without = (
        "cgpu.1",
        "cgpu-config.yaml.5",
        "cgpu-container-runtime.8",
        "cgpu-hook.8",
    )  # they have no parser
    texts = {path.stem: path.read_text() for path in (repository / "docs/man").glob("*.md")}
    found = [name for name, text in texts.items() if not {"@OPTIONS@", "@SYNOPSIS@"} <= set(text.split())]
    assert sorted(found) == sorted(without)


def test_every_command_has_a_page(pages: dict[str, str], repository: Path) -> None:
    """Each command, each subcommand, the runtime and the configuration have a page; there are no others."""
    scripts = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["scripts"]
    wanted = {
        *scripts,
        *(f"cgpu-{name}" for name in SUBCOMMANDS),
        "cgpu-container-runtime",
        "cgpu-config.yaml",
    }
    assert sorted(name.rpartition(".")[0] for name in pages) == sorted(wanted)


def test_keys(pages: dict[str, str]) -> None:
    """The page of the configuration has an entry for each key of the schema, with its default."""
    keys = json.loads(SCHEMA.read_text())["properties"]
    entries = dict(re.findall(r"^ {7}(\w+): .*; default (.*)$", pages["cgpu-config.yaml.5"], re.MULTILINE))
    assert entries == {name: json.dumps(rule["default"]) for name, rule in keys.items()}


def test_hook(pages: dict[str, str]) -> None:
    """The page of the hook has the stages and arguments of the hook's usage."""
    said = pages["cgpu-hook.8"]
    assert [word for word in re.findall(r"\w+", USAGE.partition("cgpu-hook ")[2]) if word not in said] == []


def test_references(pages: dict[str, str]) -> None:
    """Every page of OpenCGPU that a page refers to exists."""
    references = {
        (key, hit) for key, page in pages.items() for hit in re.findall(r"\b(cgpu[\w.-]*)\((\d)\)", page)
    }
    assert [pair for pair in references if ".".join(pair[1]) not in pages] == []
