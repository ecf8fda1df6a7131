# SPDX-License-Identifier: Apache-2.0
"""Programs of this machine: where they are, which version they say they are, which run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cgpu.errors import CgpuError
from cgpu.install.node.facts import files
from cgpu.node_files import below
from cgpu.runtime_config.programs import SEARCH, ask, first_version

TIMEOUT_S = 5.0
MAX_OUTPUT = 1 << 20
MAX_ARGUMENT = 4096
REPLACED = " (deleted)"  # behind the path of a program whose file is another one since


@dataclass(frozen=True, slots=True)
class Process:
    """One process, by the base name of what it runs. Its arguments are private: option() alone reads one."""

    pid: int
    program: str


def find(root: Path, name: str, also: Sequence[str] = ()) -> Path | None:
    """Return the program's absolute path on the machine below the root. also: folders besides the usual."""
    for folder in (*SEARCH, *also):
        path = files.follow(root, f"{folder}/{name}")
        if path.is_file() and os.access(path, os.X_OK):
            return Path(folder, name)
    return None


def output(*command: str, timeout_s: float = TIMEOUT_S) -> str | None:
    """Return what a command prints; None when it fails, is not there, or takes too long."""
    try:
        answer = ask(command, timeout_s)
    except CgpuError:
        return None
    return answer.output[:MAX_OUTPUT] if answer.status == 0 else None


def version(root: Path, program: Path) -> str | None:
    """Return the first number that `program --version` prints. Only of this machine's own programs."""
    if str(root) != "/":
        return None
    said = output(str(program), "--version")
    return None if said is None else first_version(said)


def processes(root: Path) -> tuple[Process, ...]:
    """Return the processes below the root's /proc."""
    named = ((pid, _program(root, pid)) for pid in pids(root))
    return tuple(Process(pid, program) for pid, program in named if program)


def pids(root: Path) -> list[int]:
    """Return the numbers of all processes."""
    return [int(name) for name in files.names(root, "/proc") if name.isascii() and name.isdigit()]


def option(root: Path, pid: int, names: Sequence[str]) -> str | None:
    """Return the value of an option that a process of root's was started with, None where it has none.

    Only of a process that sees the same files as this one: what a container's process says is not believed.
    """
    try:
        here, there = (os.stat(below(root, f"/proc/{who}/ns/mnt")) for who in ("self", pid))
        is_roots = below(root, f"/proc/{pid}").stat().st_uid == 0
        # Any user has root's sudo run under another name and with words of the user's choice.
        runs = os.readlink(below(root, f"/proc/{pid}/exe")).removesuffix(REPLACED).rpartition("/")[2]
    except OSError:
        return None
    if not is_roots or not os.path.samestat(here, there) or runs != _program(root, pid):
        return None
    words = _command_line(root, pid)
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            return value if equals else next(iter(words[at + 1 :]), None)
    return None


def _program(root: Path, pid: int) -> str:
    return next(iter(_command_line(root, pid)), "").rpartition("/")[2]


def _command_line(root: Path, pid: int) -> list[str]:
    try:
        with below(root, f"/proc/{pid}/cmdline").open("rb") as stream:
            read = stream.read(MAX_ARGUMENT)
    except OSError:
        return []
    words = read.decode("utf-8", "replace").split("\0")
    # The last one may be a part of what it was.
    return words[:-1] if len(read) == MAX_ARGUMENT else words
