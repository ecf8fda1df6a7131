# SPDX-License-Identifier: Apache-2.0
"""A program that says nothing more: where it and the engines of this machine wait, and its end."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SILENCE_S = 120.0
PROC = Path("/proc")
OURS = ("cgpud", "cgpu-sim", "kmod.daemon")


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").replace("\0", " ").strip()
    except OSError as error:
        return f"({error.strerror})"


def _threads(process: Path) -> Iterator[str]:
    for thread in sorted(process.glob("task/*"), key=lambda one: int(one.name)):
        name, call, stack = (_text(thread / node) for node in ("comm", "syscall", "stack"))
        yield f"  {thread.name} {name}: system call {call}\n    {stack.replace(chr(10), chr(10) + '    ')}"


def waiting(pid: int) -> str:
    """Return where each thread of a process waits, and each of an engine or a simulated card."""
    lines = []
    for process in PROC.iterdir():
        if not process.name.isdecimal():
            continue
        line = _text(process / "cmdline")
        if int(process.name) == pid or any(name in line for name in OURS):
            lines += [f"{process.name}: {line}", *_threads(process)]
    return "\n".join(lines)


@contextmanager
def no_silence(process: subprocess.Popen[str]) -> Iterator[None]:
    """End a program from which nothing comes for long; pytest shows then who waited for what."""

    def end() -> None:
        print(waiting(process.pid), file=sys.stderr)
        process.kill()

    timer = threading.Timer(SILENCE_S, end)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def next_line(process: subprocess.Popen[str], start: str, printed: list[str]) -> str:
    """Wait for the next line that begins so, and keep all that came until then."""
    assert process.stdout is not None
    with no_silence(process):
        for line in process.stdout:
            printed.append(line)
            if line.startswith(start):
                return line
    raise AssertionError(f"the program ended before it printed {start!r}: {''.join(printed)}")
