# SPDX-License-Identifier: Apache-2.0
"""Make the manual pages in PAGES/roff anew, by go-md2man: man.py PAGES.

PAGES (docs/man) has the pages' texts. In them @SYNOPSIS@, @OPTIONS@, @SUBCOMMANDS@ and @KEYS@ stand for what
the parsers and the schema say.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from cgpu import __version__
from cgpu.config.load import accepted
from cgpu.config.schema import schema
from cgpu.install.packaging.parsers import nested, programs, subcommands
from cgpu.main import SUBCOMMANDS


def escaped(text: str) -> str:
    """Return text in which nothing is Markdown."""
    return re.sub(r"([\\`*_\[\]<>|#])", r"\\\1", text)


def synopsis(parser: argparse.ArgumentParser) -> str:
    """Return what a command line looks like, one line for each of its subcommands."""
    usages = [_usage(inner) for inner in nested(parser).values()] or [_usage(parser)]
    return "\n\n".join(usages)


def _usage(parser: argparse.ArgumentParser) -> str:
    parser.formatter_class = functools.partial(argparse.HelpFormatter, width=10000)
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    return f"**{parser.prog}** {escaped(usage.removeprefix(parser.prog).strip())}"


def options(parser: argparse.ArgumentParser) -> str:
    """Return what each option and argument means, those of subcommands below a heading of their own."""
    parts = [*_definitions(parser)]
    for name, inner in nested(parser).items():
        does = inner.description or _help_of(parser, name)
        parts += [f"## {inner.prog}", f"{_sentence(does)}", *_definitions(inner)]
    return "\n\n".join(parts)


def _definitions(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if action.help == argparse.SUPPRESS or isinstance(action, argparse._SubParsersAction):
            continue
        if action.dest == "help" and parser.prog.count(" ") > 1:
            continue  # said once, of the command itself
        text = parser._get_formatter()._expand_help(action) if action.help else ""
        yield f"{_head(action)}\n: {_sentence(text)}"


def _head(action: argparse.Action) -> str:
    metavar = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    if action.choices is not None and action.metavar is None:
        metavar = "|".join(map(str, action.choices))
    value = f"*{escaped(metavar)}*"
    if not action.option_strings:
        return value
    takes = "" if action.nargs == 0 else f" {value}"
    return ", ".join(f"**{name}**{takes}" for name in action.option_strings)


def _help_of(parser: argparse.ArgumentParser, name: str) -> str:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action._choices_actions:
                if choice.dest == name:
                    return choice.help or name
    return name


def _sentence(text: str) -> str:
    text = escaped(" ".join(text.split()))
    if not text:
        return "Said above."
    return text[0].upper() + text[1:] + ("" if text.endswith((".", ":")) else ".")


def subcommand_list() -> str:
    """Return the subcommands with what each does and the page that says more."""
    return "\n\n".join(
        f"**cgpu {name}**\n: {_sentence(one.does)} See **cgpu-{name}**(1)."
        for name, one in SUBCOMMANDS.items()
    )


def keys() -> str:
    """Return the keys of the configuration, out of its schema."""
    return "\n\n".join(
        f"**{name}**: {escaped(accepted(name))}; default {escaped(json.dumps(rule['default']))}\n"
        f": {escaped(rule['description'])}"
        for name, rule in schema()["properties"].items()
    )


def texts(pages: Path) -> dict[str, str]:
    """Return the source of each page by its file name, without .md."""
    return {path.name.removesuffix(".md"): path.read_text() for path in sorted(pages.glob("*.md"))}


def page(name: str, text: str) -> str:
    """Return a page's Markdown: with its title, and what the parsers say in place of the words for it."""
    program, _, section = name.rpartition(".")
    known = {**{f"cgpu-{one}": parser for one, parser in subcommands().items()}, **programs()}
    for word, made in (("@SUBCOMMANDS@", subcommand_list), ("@KEYS@", keys)):
        text = text.replace(word, made()) if word in text else text
    if program in known:
        text = text.replace("@SYNOPSIS@", synopsis(known[program]))
        text = text.replace("@OPTIONS@", options(known[program]))
    return f'% {program.upper()} {section} "" "OpenCGPU {__version__}" "OpenCGPU"\n\n{text}'


def mark(text: str) -> str:
    """Return the last line of a page: a comment that tells which text the page was made of."""
    return f'.\\" Made by make man of a text with the SHA-256 {hashlib.sha256(text.encode()).hexdigest()}\n'


def shipped(pages: Path) -> dict[Path, str]:
    """Return the text of each page by the path of the page."""
    found = {}
    for name, text in texts(pages).items():
        found[pages / "roff" / f"man{name.rpartition('.')[2]}" / name] = page(name, text)
    return found


def main(pages: Path) -> None:
    """Make all pages anew."""
    program = shutil.which("go-md2man") or sys.exit(
        "man.py: go-md2man is not installed: scripts/bootstrap release"
    )
    shutil.rmtree(pages / "roff", ignore_errors=True)
    for path, text in shipped(pages).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        done = subprocess.run([program], input=text, capture_output=True, text=True, check=True, timeout=60)
        path.write_text(done.stdout.rstrip("\n") + "\n" + mark(text))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
