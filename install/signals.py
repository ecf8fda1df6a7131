# SPDX-License-Identifier: Apache-2.0
"""The signals by which a person ends a command."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any] | int | None
ALL = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def interrupting() -> Iterator[None]:
    """Have the first signal end the work as a failure does; further signals must not interrupt the undoing.

    An ignored signal stays ignored, as nohup needs it.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        for other in ALL:
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt

    heard = [number for number in ALL if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        _restore(before)


@contextlib.contextmanager
def ignored() -> Iterator[None]:
    """Have the signals do nothing. Only the first thread can do that, and only it gets them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def nothing(_number: int, _frame: FrameType | None) -> None:
        """Do nothing. SIG_IGN would go on to the commands that are run."""

    before = {number: signal.signal(number, nothing) for number in ALL}
    try:
        yield
    finally:
        _restore(before)


def _restore(before: Mapping[signal.Signals, Handler]) -> None:
    for number, handler in before.items():
        signal.signal(number, handler)
