# SPDX-License-Identifier: Apache-2.0
"""A question asked in a child process, so that a driver or a daemon that hangs does not stop the command."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import Any, NoReturn

from cgpu.errors import CgpuError, one_line

MAX_ANSWER = 4 << 20
END_S = 0.5
POLL_S = 0.005


class NoAnswerError(CgpuError):
    """The child that was asked did not answer in time, or ended without an answer."""


def ask(question: Callable[[], Any], what: str, limit_s: float) -> Any:
    """Return what the question returns, which JSON can hold.

    what: who is asked, for messages. Raises CgpuError with the line of the one the question has raised,
    NoAnswerError when there is no answer within limit_s seconds.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _answer(question, writer)
    os.close(writer)
    try:
        raw = _read(reader, limit_s)
    finally:
        os.close(reader)
        _end(pid)
    if raw is None:
        raise NoAnswerError(f"{what}: no answer within {limit_s:g} s")
    try:
        verdict, value = json.loads(raw)
    except ValueError as error:
        raise NoAnswerError(f"{what}: ended without an answer") from error
    if verdict == "refused":
        raise CgpuError(str(value))
    return value


def _answer(question: Callable[[], Any], writer: int) -> NoReturn:
    try:
        try:
            answer = ["answered", question()]
        except CgpuError as error:
            answer = ["refused", str(error)]
        except Exception as error:  # noqa: BLE001, the parent raises it
            answer = ["refused", one_line(f"{type(error).__name__}: {error}")]
        with os.fdopen(writer, "w") as stream:
            json.dump(answer, stream)
    finally:
        os._exit(0)


def _read(reader: int, limit_s: float) -> bytes | None:
    """Return all that is written until the other end closes; None when that takes too long or is too much."""
    deadline = time.monotonic() + limit_s
    raw = b""
    while len(raw) <= MAX_ANSWER:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            return None
        part = os.read(reader, 1 << 16)
        if not part:
            return raw
        raw += part
    return None


def _end(pid: int) -> None:
    """Kill the child and reap it. A child that the kernel cannot end is left for init."""
    # By number, not by psutil: /proc may be that of another pid namespace. Nobody else gets the number before
    # the child is reaped.
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + END_S
    while os.waitpid(pid, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
        time.sleep(POLL_S)
