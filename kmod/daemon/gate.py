# SPDX-License-Identifier: Apache-2.0
"""Keeps a shared object until the last thread that uses it is done."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Gate:
    """Lets threads in until it is closed."""

    def __init__(self) -> None:
        """Begin open."""
        self._changed = threading.Condition()
        self._inside = 0
        self._closed = False

    @contextmanager
    def pass_through(self) -> Iterator[None]:
        """Be inside for the block. Raises OSError, ESRCH, once the gate is closed."""
        with self._changed:
            if self._closed:
                raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Refuse all entries from now on, and wait until no thread is inside."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not self._inside)
