# SPDX-License-Identifier: Apache-2.0
"""Documents are read strictly: every command is found as it is written, what cannot be read is refused."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.docs.commands import parse, words
from tests.docs.markdown import UnreadableError
from tests.docs.run import form, not_shown, replaced

WORD = st.text(
    st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters="`\\"), min_size=1, max_size=12
)
ARGUMENTS = st.lists(
    WORD.filter(lambda word: not word.startswith("[") and not word.endswith("...")), max_size=5
)
COMMENT = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=20)
PROSE = st.lists(
    st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters="`"), max_size=30),
    max_size=4,
)


def quoted(arguments: list[str]) -> str:
    """Return a command as a person would write it."""
    return " ".join(["cgpu-smi", *(shlex.quote(word) for word in arguments)])


@given(commands=st.lists(st.tuples(ARGUMENTS, COMMENT), min_size=1, max_size=4), fenced=st.booleans())
def test_every_command_is_found(commands: list[tuple[list[str], str]], fenced: bool) -> None:
    """What stands in a block comes out word for word, in order, without comments."""
    lines = [quoted(arguments) + (f"   # {comment}" if comment else "") for arguments, comment in commands]
    block = ["```sh", *lines, "```"] if fenced else [f"    {line}" for line in lines]
    found = parse("x.md", "\n".join(["# Title", "", *block, ""]))
    assert [words(one.text) for one in found.commands] == [
        ["cgpu-smi", *arguments] for arguments, _ in commands
    ]


@given(arguments=ARGUMENTS, before=PROSE, at=st.integers(0, 5))
def test_continued(arguments: list[str], before: list[str], at: int) -> None:
    """A command over several lines is one, with the line where it begins; prose around it changes nothing."""
    parts = quoted(arguments).split(" ")
    split = (
        " ".join(parts[: at + 1]) + " \\\n    " + " ".join(parts[at + 1 :])
        if len(parts) > at + 1
        else " ".join(parts)
    )
    text = "\n".join([*(line.strip() for line in before), "```sh", split, "```"])
    (found,) = parse("x.md", text).commands
    assert words(found.text) == ["cgpu-smi", *arguments]
    assert found.line == len(before) + 2


@given(text=st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E) | st.just("\n"), max_size=200))
def test_any_text(text: str) -> None:
    """Any text is read or refused, and each block that begins is read to its end."""
    try:
        found = parse("x.md", text)
    except UnreadableError:
        return
    assert all(one.text and one.text in " ".join(text.replace("\\\n", "").split()) for one in found.commands)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("```sh\ncgpu-smi\n", "no end"),
        ("```\ncgpu-smi\n```", "expected behind a fence"),
        ("```bash\ncgpu-smi\n```", "expected behind a fence"),
        ("```sh\n```", "has no command"),
        ("```sh\n# only a comment\n```", "has no command"),
        ("```sh\ncgpu-smi \\\n```", "ends within one"),
        ("```sh\ncgpu config set 'x\n```", "No closing quotation"),
        ("```sh\ncgpu-smi [--json]\n```", "a usage"),
        ("```text\ncgpu gc --dry-run\n```", "write it in a block for sh"),
        ("\tcgpu-smi", "a tab"),
        ("```sh\ncgpu-smi\n```sh\n```", "another fence"),
    ],
)
def test_refused(text: str, why: str) -> None:
    """What cannot be read is refused, and not overlooked."""
    with pytest.raises(UnreadableError, match=why):
        parse("x.md", text)


def test_kinds() -> None:
    """Commands, names of commands, usages, messages and data are told apart."""
    text = (
        "`cgpu gc` and `cgpud`, `cgpu config set KEY VALUE`, `cgpud: is down; start it: cgpud --x`\n\n"
        "    $ cgpu-smi -l 2\n    GPU 0\n\n    apiVersion: v1\n\n```text\ncgpu run [--mem N]\n```\n"
    )
    found = parse("x.md", text)
    assert [one.text for one in found.commands] == ["cgpu-smi -l 2"]
    assert found.commands[0].shows == ("GPU 0",)
    assert [one.text for one in found.inline] == ["cgpu gc"]
    assert [one.text for one in found.forms] == ["cgpu run [--mem N]", "cgpu config set KEY VALUE"]


def test_output() -> None:
    """Output has the form that a document shows, whatever its numbers and ids are; another text is found."""
    shows = ("GPU 0  Tesla T4, 6043 MiB", "  4a4b4c4d4e4f  512 MiB used …")
    assert not_shown(shows, "x\nGPU 1  Tesla T4, 7 MiB\n  0123456789ab  1 MiB used, weight 1\n") == ""
    assert not_shown(shows, "GPU 1  Tesla T4, 7 GiB\n") == shows[0]
    assert not_shown(shows, "  0123456789ab  1 MiB used, weight 1\nGPU 1  Tesla T4, 7 MiB\n") == shows[1]
    assert form("a  GPU-afcd1d7b 1.5 ms") == "a ID N ms"


def test_replaced() -> None:
    """Only whole words are replaced."""
    assert (
        replaced("run IMAGE MY_IMAGE IMAGES NAME:/x", {"IMAGE": "a", "NAME": "b"})
        == "run a MY_IMAGE IMAGES b:/x"
    )
