# SPDX-License-Identifier: Apache-2.0
"""Programs of the system: by absolute path, with an environment of our own, a deadline, and no shell."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from cgpu.errors import CgpuError, one_line

SEARCH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
# DOCKER_CONTEXT overrides the machine that the settings of root's docker client may name.
ENVIRONMENT = {"PATH": ":".join(SEARCH), "HOME": "/root", "LC_ALL": "C.UTF-8", "DOCKER_CONTEXT": "default"}
TIMEOUT_S = 60.0
SHOWN = 300
VERSION = re.compile(r"\d+(?:\.\d+)+|\d+")


@dataclass(frozen=True, slots=True)
class Done:
    """Result of a program: its status, which is 0 for success, and what it printed."""

    status: int
    output: str
    errors: str = ""

    def last_line(self) -> str:
        """Return the last line that says anything: of the errors, where there are some."""
        lines = [line.strip() for line in f"{self.output}\n{self.errors}".splitlines() if line.strip()]
        return one_line(lines[-1])[:SHOWN] if lines else "it printed nothing"


def find(name: str, search: Sequence[str] = SEARCH) -> str | None:
    """Return the path of a program, None when this machine does not have it."""
    for folder in search:
        path = f"{folder}/{name}"
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def ask(command: Sequence[str], timeout: float = TIMEOUT_S, held: Sequence[int] = ()) -> Done:
    """Run a program to its end. held: descriptors that it keeps open, such as that of a lock.

    Raises CgpuError when it cannot be started or does not end.
    """
    try:
        process = subprocess.Popen(
            list(command),
            env=ENVIRONMENT,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=held,
            start_new_session=True,
        )
    except OSError as error:
        raise CgpuError(f"{command[0]}: cannot be started ({error.strerror})") from error
    with process:
        try:
            output, errors = process.communicate(timeout=timeout)
        except BaseException as error:
            # With all that it has started: none of it may run while its work is undone.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise CgpuError(f"{shlex.join(command)}: did not end within {timeout:g} s") from error
            raise
    return Done(process.returncode, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace"))


def first_version(said: str) -> str | None:
    """Return the first version in a program's answer."""
    found = VERSION.findall(said)
    return next((one for one in found if "." in one), found[0] if found else None)


def numbers(text: str | None) -> tuple[int, ...]:
    """Return the leading numbers of a version: 6.1.0-56-amd64 is (6, 1, 0)."""
    found = VERSION.match(text or "")
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def version(name: str, search: Sequence[str] = SEARCH) -> tuple[int, int] | None:
    """Return a program's version by what `NAME --version` prints, None when it is not there or says none."""
    path = find(name, search)
    found = numbers(first_version(ask([path, "--version"]).output)) if path else ()
    return (found[0], found[1]) if len(found) > 1 else None
