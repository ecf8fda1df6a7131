# SPDX-License-Identifier: Apache-2.0
"""Reads the commands of a document: all of its shell blocks, and OpenCGPU's own in code spans of its text."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.docs.markdown import Block, Span, UnreadableError, read

OPENCGPU_PROGRAMS = ("cgpu", "cgpud", "cgpu-smi", "cgpu-runtime-config", "cgpu-config-apply")
# An indented block whose first word is one of these is a shell block.
OTHER_PROGRAMS = (
    "apt-get",
    "cat",
    "ctr",
    "docker",
    "git",
    "helm",
    "kubectl",
    "make",
    "modprobe",
    "podman",
    "python3",
    "systemctl",
    "tar",
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
    """Read a document. Raises UnreadableError with the document's name and line."""
    try:
        return parse(name, (root / name).read_text())
    except UnreadableError as error:
        raise UnreadableError(f"{name}: {error}") from None


def parse(name: str, text: str) -> Document:
    blocks, spans = read(text)
    commands: list[Command] = []
    inline: list[Command] = []
    forms: list[Command] = []
    for number, block in enumerate(blocks):
        if is_shell(block):
            following = blocks[number + 1] if number + 1 < len(blocks) else None
            commands += with_output(commands_of(name, block), block, following)
        else:
            forms += synopses_of(name, block)
    for span in spans:
        command = Command(name, span.heading, span.line, " ".join(span.text.split()))
        if is_synopsis(span.text):
            forms.append(command)
        elif is_command(span):
            check(command)
            inline.append(command)
    return Document(name, tuple(commands), tuple(inline), tuple(forms))


def is_program(word: str) -> bool:
    """Return whether a word names a program that a document may call."""
    return word in OPENCGPU_PROGRAMS or word in OTHER_PROGRAMS or word.startswith(PROGRAM_FOLDERS)


def is_shell(block: Block) -> bool:
    """Return whether a block is a shell block: of language sh, or indented with a command as its start."""
    first = block.lines[0] if block.lines else ""
    word = first.split(" ")[0]
    starts_with_command = is_program(word) or ASSIGNMENT.match(word) is not None or first.startswith(PROMPT)
    return block.language == "sh" or (not block.language and starts_with_command)


def commands_of(name: str, block: Block) -> list[Command]:
    """Return the commands of a shell block. Raises UnreadableError for a line that is no command."""
    found = []
    prompts = any(line.startswith(PROMPT) for line in block.lines)
    joined, start = "", 0
    for number, line in enumerate(block.lines, block.line):
        if prompts and not line.startswith(PROMPT):
            continue  # output of a command
        start = start if joined else number
        joined += line.removeprefix(PROMPT) if prompts else line
        if joined.endswith("\\") and without_comment(joined) == joined:
            joined = joined.removesuffix("\\")
            continue
        text = " ".join(without_comment(joined).split())
        if text:
            found.append(Command(name, block.heading, start, text))
            check(found[-1])
        joined = ""
    if joined or not found:
        raise UnreadableError(f"line {block.line}: this block for a shell has no command, or ends within one")
    return found


def with_output(commands: list[Command], block: Block, following: Block | None) -> list[Command]:
    """Give a block's first command the output that the document shows.

    The output is the block's lines without a prompt, or the text block right below it.
    """
    output: tuple[str, ...] = ()
    if block.lines[0].startswith(PROMPT):
        output = tuple(line for line in block.lines if not line.startswith(PROMPT))
    # Between the blocks' lines are a closing fence, an empty line and an opening fence.
    elif following and following.language == "text" and following.line == block.line + len(block.lines) + 3:
        output = following.lines
    first, *rest = commands
    return [Command(first.document, first.heading, first.line, first.text, output), *rest]


def without_comment(line: str) -> str:
    """Return a line without its shell comment, which starts with a # before a word and outside quotes."""
    quote = ""
    for position, character in enumerate(line):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character == "#" and (position == 0 or line[position - 1] == " "):
            return line[:position]
    return line


def words(text: str) -> list[str]:
    """Return the words of a command; each operator of the shell is a word. Raises UnreadableError."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";|&><()")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError as error:
        raise UnreadableError(f"{text}: {error}") from None


def parts(text: str) -> list[list[str]]:
    """Return each program that a command line starts, with its arguments, without assignments before it."""
    found: list[list[str]] = [[]]
    for word in words(text):
        if set(word) <= set(";|&("):
            found.append([])
        elif found[-1] or not ASSIGNMENT.match(word):
            found[-1].append(word)
    return [part for part in found if part]


def check(command: Command) -> None:
    """Raise UnreadableError for text that names no program, or that is a synopsis."""
    programs = parts(command.text)
    if not programs and not ASSIGNMENT.match(command.text):
        raise UnreadableError(f"line {command.line}: {command.text}: no program is named")
    if any(word.startswith("[") or word.endswith("...") for program in programs for word in program):
        raise UnreadableError(f"line {command.line}: {command.text}: a usage; write it in a block of text")


def synopses_of(name: str, block: Block) -> list[Command]:
    """Return the synopses in a block that is no shell block. Raises UnreadableError for a command in it."""
    found = []
    for number, line in enumerate(block.lines, block.line):
        if line.split(" ")[0] not in OPENCGPU_PROGRAMS or " " not in line:
            continue
        if not is_synopsis(line):
            raise UnreadableError(f"line {number}: {line}: a command; write it in a block for sh")
        found.append(Command(name, block.heading, number, " ".join(line.split())))
    return found


def is_synopsis(text: str) -> bool:
    """Return whether a text is a synopsis of one of OpenCGPU's commands, with metavariables or brackets."""
    if text.split(" ", maxsplit=1)[0] not in OPENCGPU_PROGRAMS or " " not in text or MESSAGE.search(text):
        return False
    return SYNOPSIS.search(text) is not None or METAVARIABLE.search(text) is not None


def is_command(span: Span) -> bool:
    """Return whether a code span is a command: OpenCGPU's with an argument, or one with |, && or $(."""
    first, _, rest = span.text.partition(" ")
    if MESSAGE.search(span.text) or not rest:
        return False
    return first in OPENCGPU_PROGRAMS or SHELL.search(span.text) is not None
