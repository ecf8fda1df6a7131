# SPDX-License-Identifier: Apache-2.0
"""Every command and usage of ours in a document is one that there is; so is all that scenarios name."""

from __future__ import annotations

import contextlib
import functools
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from cgpu.errors import CgpuError
from cgpu.install.packaging import parsers
from tests.docs.commands import OPENCGPU_PROGRAMS, Command, Document, document, is_synopsis, parts

programs = functools.cache(parsers.programs)
subcommands = functools.cache(parsers.subcommands)
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")


def documents(repository: Path) -> list[Document]:
    pages = [str(path.relative_to(repository)) for path in sorted((repository / "docs").rglob("*.md"))]
    names = ["README.md", "CONTRIBUTING.md", *pages]
    return [document(repository, name) for name in names]


def is_taken(words: Sequence[str]) -> bool:
    """Say whether one of our commands takes these words."""
    program, *rest = words
    if program == "cgpu" and rest and rest[0] in subcommands():
        # A parser sees only what stands before the command that is to be run.
        before = rest[: rest.index("--")] if "--" in rest else rest
        parser, rest = subcommands()[rest[0]], before[1:]
    elif program in programs():
        parser = programs()[program]
    else:
        return False
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            parser.parse_args(rest)
    except SystemExit as error:
        return error.code == 0  # --help and --version
    except CgpuError:
        return False
    return True


def test_every_command_is_taken(repository: Path) -> None:
    """No block of a document has a command of ours that its program refuses."""
    found = [
        (command.place, part)
        for one in documents(repository)
        for command in one.commands
        for part in parts(command.text)
        if part[0] in OPENCGPU_PROGRAMS
    ]
    assert len(found) > 50
    assert [place for place, part in found if not is_taken(part)] == []


def named(form: Command) -> Iterator[str]:
    """Yield what is wrong with a usage: a subcommand or an option that the command has not."""
    program, *rest = form.text.split()
    known = {name: parser.format_help() for name, parser in programs().items()}
    if program == "cgpu":
        if rest[0] not in subcommands():
            yield f"{form.place}: no subcommand {rest[0]}"
            return
        parser = subcommands()[rest[0]]
        inner = [one.choices for one in parser._actions if isinstance(one.choices, dict)]
        known["cgpu"] = parser.format_help() + "".join(
            one.format_help() for choices in inner for one in choices.values()
        )
    for option in OPTION.findall(form.text.split(" -- ")[0]):
        if option not in OPTION.findall(known[program]):
            yield f"{form.place}: no option {option}"


def test_usages(repository: Path) -> None:
    """Each usage in a document, and each name of a command or option, is of one that is there."""
    forms = [
        form
        for one in documents(repository)
        for form in (*one.forms, *one.inline)
        if form.text.startswith("cgpu")
    ]
    assert len(forms) > 60
    # A command would be one of a block for sh.
    of_blocks = [form for one in documents(repository) for form in one.forms]
    assert [form.place for form in of_blocks if not is_synopsis(form.text)] == []
    assert [fault for form in forms for fault in named(form)] == []
