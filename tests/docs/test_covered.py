# SPDX-License-Identifier: Apache-2.0
"""Every command of every document is run by a test, or is among the few of which it is said why none can."""

from __future__ import annotations

import contextlib
import functools
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cgpu.errors import CgpuError
from cgpu.install.packaging import parsers
from tests.docs.commands import Command, Document, document, parse, parts
from tests.docs.elsewhere import ELSEWHERE, REASONS
from tests.docs.run import typed
from tests.docs.scenarios import SCENARIOS

programs = functools.cache(parsers.programs)
subcommands = functools.cache(parsers.subcommands)
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")


def documents(repository: Path) -> list[Document]:
    """Return all documents."""
    pages = [str(path.relative_to(repository)) for path in sorted((repository / "docs").rglob("*.md"))]
    names = ["README.md", "CONTRIBUTING.md", *pages]
    return [document(repository, name) for name in names]


def uncovered(found: list[Document]) -> list[str]:
    """Return the places of commands that no test runs and that nobody has given a reason for."""
    run = {one.text for each in found if each.name in SCENARIOS for one in typed(each, SCENARIOS[each.name])}
    known = run | ELSEWHERE.keys() | REASONS.keys()
    wanted = [one for each in found for one in (*each.commands, *filter(is_complete, each.inline))]
    return [one.place for one in wanted if one.text not in known]


def is_complete(command: Command) -> bool:
    """Say whether code within a line can be typed as it stands, not only a command's or an option's name."""
    program, *rest = parts(command.text)[0]
    if program == "cgpu" and rest and rest[0] in subcommands():
        if rest[0] == "run" and "--" not in rest:
            return False  # its parser sees only what stands before --
        parser, rest = subcommands()[rest[0]], rest[1:]
    elif program in programs():
        parser = programs()[program]
    else:
        return True
    try:
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            parser.parse_args(rest)
    except (SystemExit, CgpuError):
        return False
    return True


def test_every_command_is_run(repository: Path) -> None:
    """No command of a document is without a test or a reason."""
    found = documents(repository)
    assert sum(len(one.commands) for one in found) > 100
    assert uncovered(found) == []


@pytest.mark.parametrize(
    "text",
    [
        "```sh\ncgpu gc --dry-run && cgpu-smi -i 3\n```\n",
        "    docker run --runtime=other IMAGE\n",
        "It is `cgpud --status --run /x`.\n",
    ],
)
def test_a_new_command_is_found(repository: Path, text: str) -> None:
    """A command that is added to a document, and that nothing runs, is named with its place."""
    (place,) = uncovered([*documents(repository), parse("new.md", text)])
    assert place.startswith("new.md:")


def test_nothing_is_stale(repository: Path) -> None:
    """What the tables and scenarios say is said of a command that is there."""
    found = {one.name: one for one in documents(repository)}
    everywhere = {one.text for each in found.values() for one in (*each.commands, *each.inline)}
    assert [text for text in (*ELSEWHERE, *REASONS) if text not in everywhere] == []
    assert ELSEWHERE.keys() & REASONS.keys() == set()
    assert all(REASONS.values())
    for name, scenario in SCENARIOS.items():
        texts = {one.text for one in typed(found[name], scenario)}
        assert [
            text for text in (*scenario.before, *scenario.typed, *scenario.expect) if text not in texts
        ] == [], name
        assert [text for text in (*scenario.inline, *scenario.earlier) if text not in everywhere] == [], name


@pytest.mark.parametrize("text", ELSEWHERE)
def test_elsewhere(repository: Path, text: str) -> None:
    """The test that is named for a command is there, and has the command's words or what stands for them."""
    by = ELSEWHERE[text]
    assert Path(by.test).name.startswith(("test_", "conftest"))
    source = "".join((repository / path).read_text() for path in (by.test, *by.programs))
    assert by.words
    assert [word for word in by.words if word not in source] == []


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
    assert [fault for form in forms for fault in named(form)] == []
