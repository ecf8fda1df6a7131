# SPDX-License-Identifier: Apache-2.0
"""Commands of the system: by absolute path, with an environment of our own, a deadline, and no shell."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
from collections.abc import Sequence
from typing import Protocol

from cgpu.errors import CgpuError
from cgpu.runtime_config import programs

FOLDERS = programs.SEARCH
# DOCKER_CONTEXT overrides the machine that the settings of root's docker client may name.
ENVIRONMENT = {"PATH": ":".join(FOLDERS), "HOME": "/root", "LC_ALL": "C.UTF-8", "DOCKER_CONTEXT": "default"}
TIMEOUT_S = 120.0
Done = programs.Done


class Runner(Protocol):
    """Runs commands; tests have one that keeps a list instead, for what cannot run there."""

    def run(self, words: Sequence[str], timeout: float = TIMEOUT_S) -> Done:
        """Run a command to its end. Raises CgpuError when it is not there or takes too long."""


class SystemRunner:
    """Runs the commands of this machine."""

    def __init__(self, held: Sequence[int] = ()) -> None:
        """held: descriptors that the commands keep open, such as that of a lock."""
        self._held = tuple(held)

    def run(self, words: Sequence[str], timeout: float = TIMEOUT_S) -> Done:
        """Run a command to its end. Raises CgpuError when it is not there or takes too long."""
        command = [find(words[0]), *words[1:]]
        with subprocess.Popen(
            command,
            env=ENVIRONMENT,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=self._held,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=timeout)
            except BaseException as error:
                # With all that it has started: none of it may run while its work is undone.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                if isinstance(error, subprocess.TimeoutExpired):
                    raise CgpuError(f"{shlex.join(words)}: did not end within {timeout:.0f} s") from error
                raise
        return Done(process.returncode, output.decode("utf-8", "replace"))


def find(name: str) -> str:
    """Return a command's absolute path. Raises CgpuError."""
    if name.startswith("/"):
        return name
    found = programs.find(name, FOLDERS)
    if found is not None:
        return found
    raise CgpuError(f"{name}: is in none of {', '.join(FOLDERS)}; install it")


def must(
    runner: Runner, words: Sequence[str], timeout: float = TIMEOUT_S, passes: Sequence[int] = ()
) -> Done:
    """Run a command that has to succeed. passes: statuses besides 0.

    Raises CgpuError with the last line that it printed.
    """
    done = runner.run(words, timeout)
    if done.status not in (0, *passes):
        raise CgpuError(f"{shlex.join(words)}: exit status {done.status}: {done.last_line()}")
    return done
