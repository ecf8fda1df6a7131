# SPDX-License-Identifier: Apache-2.0
"""Commands of a document: those of its blocks for a shell, and ours within its text."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.docs.markdown import Block, Span, UnreadableError, read

OURS = ("cgpu", "cgpud", "cgpu-smi", "cgpu-runtime-config", "cgpu-config-apply")
# An indented block that begins with one of these is for a shell.
OTHERS = (
    "apt-get",
    "cat",
    "ctr",
    "docker",
    "git",
    "make",
    "modprobe",
    "podman",
    "python3",
    "systemctl",
    "tar",
)
FOLDERS = ("/opt/opencgpu/bin/", "scripts/", ".venv/bin/")
PROMPT = "$ "
ASSIGNMENT = re.compile(r"[A-Z_]+=")
# What stands for a value of the reader's, and the signs of a synopsis.
METAVARIABLE = re.compile(
    r"(?:^|[\s=,|])(?:KEY|VALUE|FILE|MODEL|NAMES|ENGINE|SECONDS|DIR|PATH|VERSION|GPU|SIZE|CARDS)\b"
)
SYNOPSIS = re.compile(r"[\[\]|<>]|\.\.\.")
# A message that quotes a command, and an unfinished one.
MESSAGE = re.compile(r"…|: |; ")
SHELL = re.compile(r" (?:\||&&) |\$\(")


@dataclass(frozen=True)
class Command:
    """One command as the document has it, without its comment. shows: the output that the document shows."""

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
    """What there is to run in a document. forms: usages, with words that stand for others."""

    name: str
    commands: tuple[Command, ...]
    inline: tuple[Command, ...]
    forms: tuple[Command, ...]


def document(root: Path, name: str) -> Document:
    """Read a document. Raises UnreadableError with its place."""
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
            commands += with_output(list(of_block(name, block)), block, following)
        else:
            forms += of_data(name, block)
    for span in spans:
        one = Command(name, span.heading, span.line, " ".join(span.text.split()))
        if is_form(span.text):
            forms.append(one)
        elif is_command(span):
            check(one)
            inline.append(one)
    return Document(name, tuple(commands), tuple(inline), tuple(forms))


def is_program(word: str) -> bool:
    """Say whether a word names a program that a document may call."""
    return word in OURS or word in OTHERS or word.startswith(FOLDERS)


def is_shell(block: Block) -> bool:
    """Say whether a block is for a shell: by its language, or where it is indented by its first word."""
    first = block.lines[0] if block.lines else ""
    word = first.split(" ")[0]
    named = is_program(word) or ASSIGNMENT.match(word) is not None or first.startswith(PROMPT)
    return block.language == "sh" or (not block.language and named)


def of_block(name: str, block: Block) -> list[Command]:
    """Return the commands of a block for a shell. Raises UnreadableError for a line that is none."""
    found = []
    prompts = any(line.startswith(PROMPT) for line in block.lines)
    joined, start = "", 0
    for number, line in enumerate(block.lines, block.line):
        if prompts and not line.startswith(PROMPT):
            continue  # what a command has printed
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
    """Give a block's first command what the document shows: after a prompt, or in the next block of text."""
    printed: tuple[str, ...] = ()
    if block.lines[0].startswith(PROMPT):
        printed = tuple(line for line in block.lines if not line.startswith(PROMPT))
    elif following and following.language == "text" and following.line == block.line + len(block.lines) + 3:
        printed = following.lines
    first, *rest = commands
    return [Command(first.document, first.heading, first.line, first.text, printed), *rest]


def without_comment(line: str) -> str:
    """Return a line without what stands behind a # outside of quotes."""
    quote = ""
    for position, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "#" and (position == 0 or line[position - 1] == " "):
            return line[:position]
    return line


def words(text: str) -> list[str]:
    """Return the words of a command, signs of the shell as words of their own. Raises UnreadableError."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";|&><()")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError as error:
        raise UnreadableError(f"{text}: {error}") from None


def parts(text: str) -> list[list[str]]:
    """Return the programs that a command line starts, with arguments, without assignments before them."""
    found: list[list[str]] = [[]]
    for word in words(text):
        if set(word) <= set(";|&("):
            found.append([])
        elif found[-1] or not ASSIGNMENT.match(word):
            found[-1].append(word)
    return [part for part in found if part]


def check(command: Command) -> None:
    """Raise UnreadableError for what is no command: no word, a usage, a sign that only a prompt has."""
    first = parts(command.text)
    if not first and not ASSIGNMENT.match(command.text):
        raise UnreadableError(f"line {command.line}: {command.text}: no program is named")
    if any(word.startswith("[") or word.endswith("...") for part in first for word in part):
        raise UnreadableError(f"line {command.line}: {command.text}: a usage; write it in a block of text")


def of_data(name: str, block: Block) -> list[Command]:
    """Return the usages in a block that is for no shell. Raises UnreadableError for a command in it."""
    found = []
    for number, line in enumerate(block.lines, block.line):
        if line.split(" ")[0] not in OURS or " " not in line:
            continue
        if not is_form(line):
            raise UnreadableError(f"line {number}: {line}: a command; write it in a block for sh")
        found.append(Command(name, block.heading, number, " ".join(line.split())))
    return found


def is_form(text: str) -> bool:
    """Say whether a text is a usage of one of our commands, with signs or words that stand for others."""
    if text.split(" ", maxsplit=1)[0] not in OURS or " " not in text or MESSAGE.search(text):
        return False
    return SYNOPSIS.search(text) is not None or METAVARIABLE.search(text) is not None


def is_command(span: Span) -> bool:
    """Say whether code within a line is a command: ours with an argument, or with signs of a shell."""
    first, _, rest = span.text.partition(" ")
    if MESSAGE.search(span.text) or not rest:
        return False
    return first in OURS or SHELL.search(span.text) is not None
