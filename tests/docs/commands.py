# SPDX-License-Identifier: Apache-2.0
"""Reads the commands of a document: all of its shell blocks, and OpenCGPU's own in code spans of its text."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from markdown_it import MarkdownIt

OPENCGPU_PROGRAMS = ("cgpu", "cgpud", "cgpu-smi", "cgpu-runtime-config", "cgpu-config-apply")
# An indented block whose first word is one of these is a shell block.
OTHER_PROGRAMS = (
    *("apt-get", "cat", "ctr", "docker", "git", "helm", "kubectl", "make"),
    *("modprobe", "podman", "python3", "systemctl", "tar"),
)
PROGRAM_FOLDERS = ("/opt/opencgpu/bin/", "scripts/", ".venv/bin/")
PROMPT = "$ "
ASSIGNMENT = re.compile(r"[A-Z_]+=")
# Words that the reader replaces by a value, and the characters of a synopsis.
METAVARIABLE = re.compile(
    r"(?:^|[\s=,|])(?:KEY|VALUE|FILE|MODEL|NAMES|ENGINE|SECONDS|DIR|PATH|VERSION|GPU|SIZE|CARDS)\b"
)
SYNOPSIS = re.compile(r"[\[\]|<>]|\.\.\.")
# Text of a message that quotes a command, or of an abbreviated command.
MESSAGE = re.compile(r"…|: |; ")
SHELL = re.compile(r" (?:\||&&) |\$\(")


@dataclass(frozen=True)
class Command:
    """A command of a document, without its shell comment. shows: the lines of output below the command."""

    document: str
    heading: str
    line: int
    text: str
    shows: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        return f"{self.document}:{self.line}: {self.text}"


@dataclass(frozen=True)
class Document:
    """The commands of a document.

    commands: those of shell blocks. inline: OpenCGPU's in code spans. forms: synopses, which cannot be run.
    """

    name: str
    commands: tuple[Command, ...]
    inline: tuple[Command, ...]
    forms: tuple[Command, ...]


def document(root: Path, name: str) -> Document:
    commands: list[Command] = []
    inline: list[Command] = []
    forms: list[Command] = []
    heading, is_heading, is_below_shell, count = "", False, False, 0
    for token in MarkdownIt().parse((root / name).read_text()):
        here = Command(name, heading, (token.map or [0])[0] + 1, "")
        lines = tuple(token.content.splitlines())
        if is_below_shell and token.info == "text":
            first = len(commands) - count
            commands[first] = replace(commands[first], shows=lines)
        is_below_shell = token.type in ("fence", "code_block") and is_shell(token.info, lines[0])
        if is_below_shell:
            found = list(commands_of(here, lines))
            count = len(found)
            commands += found
        elif token.type in ("fence", "code_block"):
            forms += [replace(here, text=" ".join(line.split())) for line in lines if is_ours(line)]
        elif token.type == "inline":
            heading = token.content if is_heading else heading
            for span in token.children or ():
                if span.type == "code_inline" and is_synopsis(span.content):
                    forms.append(replace(here, heading=heading, text=span.content))
                elif span.type == "code_inline" and is_command(span.content):
                    inline.append(replace(here, heading=heading, text=span.content))
        is_heading = token.type == "heading_open"
    return Document(name, tuple(commands), tuple(inline), tuple(forms))


def is_shell(language: str, first: str) -> bool:
    """Return whether a block is a shell block: of language sh, or indented with a command as its start."""
    word = first.partition(" ")[0]
    programs = (*OPENCGPU_PROGRAMS, *OTHER_PROGRAMS)
    begins = word in programs or word.startswith(PROGRAM_FOLDERS) or first.startswith(PROMPT)
    return language == "sh" or (not language and (begins or ASSIGNMENT.match(word) is not None))


def commands_of(block: Command, lines: tuple[str, ...]) -> Iterator[Command]:
    """Yield the commands of a shell block. Between prompts stands the output of the first one."""
    output: tuple[str, ...] = ()
    if lines[0].startswith(PROMPT):
        output = tuple(line for line in lines if not line.startswith(PROMPT))
        lines = tuple(line.removeprefix(PROMPT) for line in lines if line.startswith(PROMPT))
    for text in "\n".join(lines).replace("\\\n", "").splitlines():
        command = " ".join(text.partition(" #")[0].split())
        if command and not command.startswith("#"):
            yield replace(block, text=command, shows=output)
            output = ()


def parts(text: str) -> list[list[str]]:
    """Return each program that a command line starts, with its arguments, without assignments before it."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";|&><()")
    lexer.whitespace_split = True
    lexer.commenters = ""
    found: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set(";|&("):
            found.append([])
        elif found[-1] or not ASSIGNMENT.match(word):
            found[-1].append(word)
    return [part for part in found if part]


def is_ours(text: str) -> bool:
    """Return whether a text is a command of OpenCGPU with arguments."""
    return text.partition(" ")[0] in OPENCGPU_PROGRAMS and " " in text


def is_synopsis(text: str) -> bool:
    """Return whether a text is a synopsis of one of OpenCGPU's commands, with metavariables or brackets."""
    if not is_ours(text) or MESSAGE.search(text):
        return False
    return SYNOPSIS.search(text) is not None or METAVARIABLE.search(text) is not None


def is_command(text: str) -> bool:
    """Return whether a code span is a command: OpenCGPU's with an argument, or one with |, && or $(."""
    return not MESSAGE.search(text) and (is_ours(text) or SHELL.search(text) is not None)
