# SPDX-License-Identifier: Apache-2.0
"""Commands that change the system."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Protocol

from cgpu.errors import CgpuError
from cgpu.runtime_config import programs

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
        name = words[0]
        path = name if name.startswith("/") else programs.find(name)
        if path is None:
            raise CgpuError(f"{name}: is in none of {', '.join(programs.SEARCH)}; install it")
        return programs.ask([path, *words[1:]], timeout, self._held)


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
