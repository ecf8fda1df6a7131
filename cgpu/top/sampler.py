# SPDX-License-Identifier: Apache-2.0
"""A thread that reads the node again and again, so that a screen answers while an engine does not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from cgpu.errors import CgpuError
from cgpu.top.model import Recorder, View
from cgpu.top.reading import Key, Read

FIRST_S = 1.0
"""Seconds until the second reading, with which rates begin."""


class Sampler:
    """Reads, and reports each view, or why there is none."""

    def __init__(self, read: Read, report: Callable[[View | CgpuError], object], delay: float) -> None:
        """Take a reader, which a thread of its own calls, and a receiver of views. delay: in seconds."""
        self._read = read
        self._report = report
        self._delay = delay
        self._watched: Key | None = None
        self._wake = threading.Event()
        self._stopped = False
        self._recorder = Recorder()

    def start(self) -> None:
        """Begin. The process may end whatever the thread waits for."""
        threading.Thread(target=self._run, name="sampler", daemon=True).start()

    def stop(self) -> None:
        """End after the reading that is in progress, without waiting for it."""
        self._stopped = True
        self._wake.set()

    def set_delay(self, seconds: float) -> None:
        """Read at other intervals, from now on."""
        self._delay = seconds
        self._wake.set()

    def watch(self, which: Key | None) -> None:
        """Read the processes of this slice besides, at once."""
        self._watched = which
        self._wake.set()

    def sample(self) -> View | CgpuError:
        """Read once."""
        try:
            return self._recorder.add(self._read(self._watched))
        except CgpuError as error:
            self._recorder.miss()
            return error

    def _run(self) -> None:
        readings = 0
        while not self._stopped:
            self._wake.clear()
            began = time.monotonic()
            self._report(self.sample())
            readings += 1
            delay = min(self._delay, FIRST_S) if readings == 1 else self._delay
            self._wake.wait(max(0.0, began + delay - time.monotonic()))
