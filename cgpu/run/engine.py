# SPDX-License-Identifier: Apache-2.0
"""The engine for a run: the one that there is, or a cgpud that lives as long as runs need it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import time
from typing import TYPE_CHECKING

from cgpu import paths
from cgpu.client.tree import Tree
from cgpu.config import effective
from cgpu.errors import CgpuError, one_line
from cgpu.kmod.daemon import control, program

if TYPE_CHECKING:
    from collections.abc import Iterator

CGPUD = "cgpud"
START_S = 60.0
ATTEMPTS = 5
LOCK_S = 10.0  # for a cgpud that ends, which is up to some seconds
STEP_S = 0.02


@contextlib.contextmanager
def needed(simulate: str | None) -> Iterator[None]:
    """Have an engine that does not end by itself inside the context; start cgpud when there is none.

    simulate: cards of a cgpud that has to be started. Raises CgpuError.
    """
    with contextlib.ExitStack() as open_files:
        lock = _open_lock()
        open_files.callback(os.close, lock)
        for _ in range(ATTEMPTS):
            # A cgpud that is ending has the whole lock until it is gone.
            _lock_in_time(lock, fcntl.LOCK_SH)
            if _is_up():
                break
            _check_startable()
            _lock_in_time(lock, fcntl.LOCK_EX)
            if not _is_up():
                _start(simulate)
        else:
            raise CgpuError(f"{paths.RUN}: the engine that was started has ended again: its log says why")
        _check_cards(simulate)
        yield


def _open_lock() -> int:
    try:
        os.makedirs(paths.RUN, mode=0o700, exist_ok=True)
        os.chmod(paths.RUN, 0o700)
        return os.open(paths.RUNS_LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise CgpuError(f"{paths.RUNS_LOCK}: cannot be opened: {error.strerror}") from error


def _lock_in_time(lock: int, operation: int) -> None:
    """Lock, if no other process has the lock for long.

    Root of a container that sees the file, also read-only, can have it for good. Without the lock two runs
    may start a cgpud each, of which one finds the other.
    """
    deadline = time.monotonic() + LOCK_S
    while time.monotonic() < deadline:
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, operation | fcntl.LOCK_NB)
            return
        time.sleep(STEP_S)


def _tree() -> str:
    return paths.tree(effective.load().tree)


def _is_up() -> bool:
    return os.path.exists(_tree() + "/version")


def _check_startable() -> None:
    """Refuse where the node has been given an engine, which its administrator has stopped."""
    if paths.start_command(_tree()) != CGPUD:
        # kind() raises which engine is down and what starts it.
        Tree(_tree()).kind()


def _start(simulate: str | None) -> None:
    words = ["--transient"] if simulate is None else ["--transient", "--simulate", simulate]
    cgpud = program.own()
    try:
        done = subprocess.run(
            cgpud.command(*words),
            env=cgpud.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=START_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CgpuError(f"cgpud does not become ready within {START_S:.0f} s: cgpud --foreground") from error
    if done.returncode != 0 and not _is_up():
        raise CgpuError(f"no engine runs, and none can be started: {one_line(done.stderr.strip())}")


def _check_cards(simulate: str | None) -> None:
    if simulate is None:
        return
    answer = control.ask(paths.CONTROL_SOCKET, {"command": "status"})
    cards = answer.get("simulate") if answer is not None else None
    if cards != simulate:
        has = f"--simulate {cards}" if cards else "the node's own GPUs"
        raise CgpuError(f"--simulate {simulate}: the engine that runs has {has}; leave the option out")
