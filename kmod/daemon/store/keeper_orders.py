# SPDX-License-Identifier: Apache-2.0
"""Orders to the keeper by a cgpud that is not its child. It answers by a pipe that comes with the order."""

from __future__ import annotations

import os
import select
from typing import TYPE_CHECKING

from cgpu.kmod.daemon.store.notify_socket import NotifySocket

if TYPE_CHECKING:
    from pathlib import Path

START = "CGPU_START"  # = JSON list of arguments: start the daemon, if none runs; the answer is one line
STOP = "CGPU_STOP"  # = 1: no daemon is to run or to be tried; no answer but the pipe's end
END = "CGPU_END"  # = 1: the same, and what is held is let go
MAX_LINE = 4096


def order(keeper: Path, what: str, wait_s: float | None = None) -> str | None:
    """Give an order and return its answer; empty: it has none, or was not heeded.

    None: nobody listens, or nobody has answered in time.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        try:
            NotifySocket(str(keeper)).send(what, [writer])
        except OSError:
            return None
        finally:
            os.close(writer)
        poll = select.poll()
        poll.register(reader, select.POLLIN)
        if not poll.poll(None if wait_s is None else wait_s * 1000):
            return None
        return os.read(reader, MAX_LINE).decode("utf-8", "replace").strip()
    finally:
        os.close(reader)
