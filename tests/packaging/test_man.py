# SPDX-License-Identifier: Apache-2.0
"""The manual pages say what the parsers and the schema say, and are written as man reads them."""

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
from cgpu.install.packaging.man import main, texts
from cgpu.install.packaging.parsers import nested, programs, subcommands
from cgpu.main import SUBCOMMANDS

PARTS = ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "FILES", "EXAMPLES", "SEE ALSO")


@pytest.fixture(scope="module")
def pages(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return each page as man shows it, without what it draws words with."""
    if shutil.which("go-md2man") is None:
        pytest.skip("go-md2man is not installed; run: scripts/bootstrap test")
    folder = tmp_path_factory.mktemp("man")
    main(repository / "docs/man", folder, "2026-01-01")
    found = {}
    for source in sorted(folder.glob("*.md")):
        page = source.with_suffix("")
        subprocess.run(["go-md2man", "-in", source, "-out", page], check=True, timeout=60)
        found[page.name] = shown(page)
    return found


def shown(page: Path) -> str:
    """Return what man makes of a page; it must have nothing to complain of."""
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "MANWIDTH": "1000", "MANROFFOPT": "-c"}
    command = ["man", "--warnings", "--local-file", "--pager", "cat", str(page)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr == ""
    return re.sub(".\b", "", done.stdout)


def option_names(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield every option that a parser, and those below it, tell of."""
    for action in parser._actions:
        if action.help != argparse.SUPPRESS:
            yield from action.option_strings
    for inner in nested(parser).values():
        yield from option_names(inner)


def defined(page: str) -> set[str]:
    """Return the options that a page has an entry of its own for."""
    heads = re.findall(r"^ {7}(-.*?)(?:  |$)", page, re.MULTILINE)
    return {name for head in heads for name in re.findall(r"(?:^|, )(--?[\w-]+)", head)}


def with_parsers() -> dict[str, argparse.ArgumentParser]:
    other = {name: parser for name, parser in programs().items() if name != "cgpu"}
    named = {f"cgpu-{name}": parser for name, parser in subcommands().items()}
    return {**other, **named}


def test_every_command_has_a_page(pages: dict[str, str], repository: Path) -> None:
    """Each command, each subcommand, the runtime and the configuration have a page, and nothing else has."""
    scripts = tomllib.loads((repository / "pyproject.toml").read_text())["project"]["scripts"]
    wanted = {
        *scripts,
        *(f"cgpu-{name}" for name in SUBCOMMANDS),
        "cgpu-container-runtime",
        "cgpu-config.yaml",
    }
    assert sorted(name.rpartition(".")[0] for name in pages) == sorted(wanted)


@pytest.mark.parametrize("name", list(with_parsers()))
def test_options(pages: dict[str, str], name: str) -> None:
    """A page has an entry for every option that its command has, and for no other."""
    (page,) = (text for key, text in pages.items() if key.rpartition(".")[0] == name)
    assert defined(page) == set(option_names(with_parsers()[name]))


@pytest.mark.parametrize("name", [*with_parsers(), "cgpu"])
def test_parts(pages: dict[str, str], name: str) -> None:
    """The page of a command says what it does, its exit status, files and examples, and what else to read."""
    (page,) = (text for key, text in pages.items() if key.rpartition(".")[0] == name)
    parts = re.findall(r"^([A-Z][A-Z ]+)$", page, re.MULTILINE)
    assert [part for part in PARTS if part not in parts] == []
    assert len(section(page, "DESCRIPTION").split()) > 40
    assert name.removeprefix("cgpu-").split("-", maxsplit=1)[0] in section(page, "EXAMPLES")


def section(page: str, heading: str) -> str:
    """Return the text below a heading of a page as man shows it."""
    return re.split(r"^[A-Z]", page.split(f"\n{heading}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]


def test_written_pages_take_options_from_the_parser(repository: Path) -> None:
    """No page whose command has a parser says its options or usage by itself."""
    sources = texts(repository / "docs/man")
    for name, text in sources.items():
        if name.rpartition(".")[0] in with_parsers():
            assert "@OPTIONS@" in text
            assert "@SYNOPSIS@" in text


def test_nothing_is_left_open(pages: dict[str, str]) -> None:
    """No page has a word in it that should have been replaced, or Markdown that was not understood."""
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
    """The page of the hook has the options of its usage."""
    assert defined(pages["cgpu-hook.8"]) == set(re.findall(r"--\w+", USAGE))


def test_references(pages: dict[str, str]) -> None:
    """Every page of ours that a page refers to is there."""
    named = {
        (key, hit) for key, page in pages.items() for hit in re.findall(r"\b(cgpu[\w.-]*)\((\d)\)", page)
    }
    assert [pair for pair in named if ".".join(pair[1]) not in pages] == []
