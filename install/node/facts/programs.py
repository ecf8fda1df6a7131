# SPDX-License-Identifier: Apache-2.0
"""Programs of this machine: where they are, which version they say they are, which run."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from cgpu.errors import CgpuError
from cgpu.install.node.facts import files
from cgpu.node_files import below
from cgpu.runtime_config.programs import SEARCH, ask

ENVIRONMENT = {"LC_ALL": "C", "HOME": "/"}
TIMEOUT_S = 5.0
MAX_OUTPUT = 1 << 20
VERSION = re.compile(r"\d+(?:\.\d+)+|\d+")
MAX_ARGUMENT = 4096


@dataclass(frozen=True, slots=True)
class Process:
    """One process, by the base name of what it runs. Its arguments are private, and are not read."""

    pid: int
    program: str


def find(root: Path, name: str) -> Path | None:
    """Return the program's absolute path on the machine below the root."""
    for folder in SEARCH:
        path = files.follow(root, f"{folder}/{name}")
        if path.is_file() and os.access(path, os.X_OK):
            return Path(folder, name)
    return None


def output(*command: str, timeout_s: float = TIMEOUT_S) -> str | None:
    """Return what a command prints; None when it fails, is not there, or takes too long."""
    try:
        answer = ask(command, ENVIRONMENT, timeout_s)
    except CgpuError:
        return None
    return answer.output[:MAX_OUTPUT] if answer.status == 0 else None


def version(root: Path, program: Path) -> str | None:
    """Return the first number that `program --version` prints. Only of this machine's own programs."""
    if str(root) != "/":
        return None
    said = output(str(program), "--version")
    return None if said is None else first_version(said)


def first_version(said: str) -> str | None:
    """Return the first version in a program's answer."""
    dotted = next((found[0] for found in VERSION.finditer(said) if "." in found[0]), None)
    found = VERSION.search(said)
    return dotted or (found[0] if found else None)


def numbers(text: str | None) -> tuple[int, ...]:
    """Return the leading numbers of a version: 6.1.0-56-amd64 is (6, 1, 0)."""
    found = VERSION.match(text or "")
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def processes(root: Path) -> tuple[Process, ...]:
    """Return the processes below the root's /proc."""
    named = ((pid, _program(root, pid)) for pid in pids(root))
    return tuple(Process(pid, program) for pid, program in named if program)


def pids(root: Path) -> list[int]:
    """Return the numbers of all processes."""
    return [int(name) for name in files.names(root, "/proc") if name.isascii() and name.isdigit()]


def _program(root: Path, pid: int) -> str:
    try:
        with below(root, f"/proc/{pid}/cmdline").open("rb") as stream:
            first = stream.read(MAX_ARGUMENT).partition(b"\0")[0]
    except OSError:
        return ""
    return first.decode("utf-8", "replace").rpartition("/")[2]
