# SPDX-License-Identifier: Apache-2.0
"""The manual pages agree with the parsers and the schema, and man shows them without warnings."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from cgpu.config.load import SCHEMA
from cgpu.hook.main import USAGE
from cgpu.install.packaging.man import main, mark, shipped
from cgpu.install.packaging.parsers import nested, programs, subcommands
from cgpu.main import SUBCOMMANDS


@pytest.fixture(scope="module")
def pages(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the plain text of each page as man shows it, by the name of the page."""
    if shutil.which("go-md2man") is None:
        pytest.skip("go-md2man is not installed; run: scripts/bootstrap test")
    folder = tmp_path_factory.mktemp("man")
    main(repository / "docs/man", folder, "2026-01-01")
    texts_by_name = {}
    for source in sorted(folder.glob("*.md")):
        page = source.with_suffix("")
        subprocess.run(["go-md2man", "-in", source, "-out", page], check=True, timeout=60)
        texts_by_name[page.name] = rendered(page)
    return texts_by_name


def rendered(page: Path) -> str:
    """Return the plain text of a page as man shows it. man must print no warning."""
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "MANWIDTH": "1000", "MANROFFOPT": "-c"}
    command = ["man", "--warnings", "--local-file", "--pager", "cat", str(page)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    # man prints a bold letter as letter, backspace, letter.
    return re.sub(".\b", "", done.stdout)


def option_names(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield every option that the help of a parser and of its subparsers names."""
    for action in parser._actions:
        if action.help != argparse.SUPPRESS:
            yield from action.option_strings
    for inner in nested(parser).values():
        yield from option_names(inner)


def options_of(page: str) -> set[str]:
    """Return the options that have an entry in a page."""
    heads = re.findall(r"^ {7}(-.*?)(?:  |$)", page, re.MULTILINE)
    return {name for head in heads for name in re.findall(r"(?:^|, )(--?[\w-]+)", head)}


def parsers_by_command() -> dict[str, argparse.ArgumentParser]:
    """Return the parsers of cgpu's subcommands and of all other commands, by the names of their pages."""
    other = {name: parser for name, parser in programs().items() if name != "cgpu"}
    named = {f"cgpu-{name}": parser for name, parser in subcommands().items()}
    return {**other, **named}


def test_pages_of_the_wheel_are_current(repository: Path) -> None:
    """The pages in the wheel are made of the texts, options and keys that there are now: make man."""
    wanted = shipped(repository / "docs/man")
    found = {path: path.read_text() for path in (repository / "docs/man/roff").rglob("*.[0-9]")}
    assert sorted(found) == sorted(wanted)
    stale = [path.name for path, text in wanted.items() if not found[path].endswith("\n" + mark(text))]
    assert stale == [], "make man"


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


def test_options(pages: dict[str, str]) -> None:
    """A page has an entry for every option of its command, and for no other option."""
    by_name = {key.rpartition(".")[0]: page for key, page in pages.items()}
    for name, parser in parsers_by_command().items():
        assert options_of(by_name[name]) == set(option_names(parser)), name


def test_no_placeholders_are_left(pages: dict[str, str]) -> None:
    """No page shows a placeholder, such as @OPTIONS@, or Markdown that go-md2man did not convert."""
    assert [name for name, page in pages.items() if re.search(r"@[A-Z]+@|\*\*|\\\w", page)] == []


def test_subcommands(pages: dict[str, str]) -> None:
    """The page of cgpu names each subcommand and its page."""
    assert [name for name in SUBCOMMANDS if f"cgpu {name}\n" not in pages["cgpu.1"]] == []
    assert [name for name in SUBCOMMANDS if f"cgpu-{name}(1)" not in pages["cgpu.1"]] == []


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
