# SPDX-License-Identifier: Apache-2.0
"""Facts of a real card and its driver that no source tells, as JSON. No engine may run meanwhile.

usage: python -m tests.gpu.facts [--out FILE] [NAME...]
NAME is driver, versions or contexts; without one, all.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cgpu.check_driver.run import run as run_check
from cgpu.errors import CgpuError
from tests.gpu.node import (
    DEV,
    PROBE,
    NodeError,
    driver_free,
    driver_version,
    is_known,
    program,
    ran,
    talking,
)

Json = dict[str, Any]
ANSWER_TIMEOUT_S = 60.0


def probe(*words: str) -> str:
    command = [str(PROBE), "--dev", DEV, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


class StepProgram:
    """The program tests/gpu/programs/steps.py. Each line of its input is a step."""

    def __init__(self) -> None:
        self._process = talking(program("steps"))
        self.answer()

    def answer(self) -> Json:
        """Return the program's next line of JSON. Raises NodeError."""
        assert self._process.stdout is not None
        # A program whose kernel does not end never answers.
        timer = threading.Timer(ANSWER_TIMEOUT_S, self._process.kill)
        timer.start()
        line = self._process.stdout.readline()
        timer.cancel()
        if not line.startswith("{"):
            raise NodeError(line.strip() or "the program ended")
        found: Json = json.loads(line)
        return found

    def step(self, word: str) -> Json:
        """Have the program take a step, and return its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(word + "\n")
        self._process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate("stop\n", timeout=60)


def versions() -> Json:
    """Return the versions of driver, kernel and frameworks, and what the driver tells of the card."""
    version = driver_version(DEV)
    frameworks = ran(program("frameworks", "versions"))
    found = json.loads(frameworks.stdout) if frameworks.returncode == 0 else {}
    card = probe("info")
    return {
        "driver": version,
        "in_table": is_known(version),
        "kernel": os.uname().release,
        "card": card,
        **found,
    }


def contexts() -> Json:
    """Return how much of the card a context and the first kernel take, and what is not given back."""
    free = driver_free(DEV)
    with contextlib.closing(StepProgram()) as one:
        found: Json = {"free": free}
        for word in ("context", "kernel"):
            answer = one.step(word)
            found[word] = {"answer": answer, "taken": free - driver_free(DEV)}
    found["left_after_end"] = free - driver_free(DEV)
    return found


def driver() -> Json:
    """Return the results of `cgpu check-driver` for each card."""
    outcome = run_check(DEV)
    checks = {f"{one.card}: {one.name}": f"{one.verdict} {one.reason}".strip() for one in outcome.checks}
    return {"driver": outcome.driver, "layouts": outcome.table, "known": outcome.known, "checks": checks}


FACTS: dict[str, Callable[[], Json]] = {fact.__name__: fact for fact in (driver, versions, contexts)}


def gather(names: Sequence[str]) -> Json:
    """Return the facts by name. For a fact that fails, return the error and go on with the others."""
    found: Json = {}
    for name in names:
        try:
            found[name] = FACTS[name]()
        except (CgpuError, NodeError, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            found[name] = {"failed": f"{type(error).__name__}: {error}"}
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the facts, or write them to a file. Return exit status 1 when a fact failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME", help="; ".join(FACTS))
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in FACTS]
    if unknown:
        parser.error(f"{unknown[0]}: expected {', '.join(FACTS)}")
    found = gather(options.names or list(FACTS))
    text = json.dumps(found, indent=1) + "\n"
    if options.out is None:
        sys.stdout.write(text)
    else:
        options.out.write_text(text)
    failed = [name for name, fact in found.items() if "failed" in fact]
    for name in failed:
        print(f"facts: {name}: {found[name]['failed']}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
