# SPDX-License-Identifier: Apache-2.0
"""The engines' own programs: their versions, and the settings that they print."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from cgpu.errors import CgpuError, one_line

SEARCH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
TIMEOUT = 60  # seconds
SHOWN = 300
NUMBERS = re.compile(r"(?<![\w.])v?(\d+)\.(\d+)")


@dataclass(frozen=True, slots=True)
class Done:
    """Result of a program: its output, and its status, which is 0 for success."""

    status: int
    output: str

    def last_line(self) -> str:
        """Return the last line that says anything."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return one_line(lines[-1])[:SHOWN] if lines else "it printed nothing"


@dataclass(frozen=True, slots=True)
class Answer(Done):
    """The same of a program that prints errors apart."""

    errors: str

    def last_line(self) -> str:
        """Return the last line it said, for a message."""
        lines = [line for line in (self.errors + "\n" + self.output).splitlines() if line.strip()]
        spoken = [line for line in self.errors.splitlines() if line.strip()] or lines
        return spoken[-1].strip() if spoken else f"exit status {self.status}"


def find(name: str, search: Sequence[str] = SEARCH) -> str | None:
    """Return the path of a program, None when this machine does not have it."""
    for folder in search:
        path = f"{folder}/{name}"
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def ask(
    command: Sequence[str], environment: dict[str, str] | None = None, timeout: float = TIMEOUT
) -> Answer:
    """Run a program to its end. Raises CgpuError when it cannot be started or does not end."""
    variables = {"PATH": ":".join(SEARCH), "LC_ALL": "C.UTF-8", "HOME": "/root", **(environment or {})}
    try:
        done = subprocess.run(
            list(command),
            env=variables,
            cwd="/",
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CgpuError(f"{command[0]}: no answer in {timeout} s; try: {' '.join(command)}") from error
    except OSError as error:
        raise CgpuError(f"{command[0]}: cannot be started ({error.strerror})") from error
    return Answer(
        done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    )


def version(name: str, search: Sequence[str] = SEARCH) -> tuple[int, int] | None:
    """Return a program's version by what `NAME --version` prints, None when it is not there or says none."""
    path = find(name, search)
    found = NUMBERS.search(ask([path, "--version"]).output) if path else None
    return (int(found[1]), int(found[2])) if found else None
