# SPDX-License-Identifier: Apache-2.0
"""Sources of events: the event log, and with the kernel module also the kernel's log.

The module writes no file. Its lines about slices are in the kernel's ring of messages, where only the
kernel has its own facility.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from cgpu.errors import CgpuError
from cgpu.events.append import OLDER
from cgpu.events.event import Event, of_line, of_words
from cgpu.files import open_nofollow

MAX_READ: Final = 4 << 20  # bytes at once; a file has a quarter of that
MAX_RECORD: Final = 1 << 13
MAX_LINE: Final = 1 << 16
# "priority,number,microseconds,flags;text"; below 8 the priority's facility is the kernel's.
_RECORD: Final = re.compile(rb"([0-7]),[0-9]+,([0-9]{1,18}),[^;]*;cgpu_km: (event=[!-~ ]*)")


class LogFile:
    """The event log, read from its begin and then as it grows."""

    def __init__(self, path: str) -> None:
        """Nothing is opened yet."""
        self._path = path
        self._fd = -1
        self._rest = b""
        self._begun = False

    def close(self) -> None:
        """Give the file back."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def poll(self) -> list[Event]:
        """Return what is new. Raises CgpuError when it cannot be read."""
        try:
            return [event for line in self._lines() if (event := of_line(line)) is not None]
        except PermissionError as error:
            raise CgpuError("only root reads the event log; run it as root, such as by sudo") from error
        except OSError as error:
            raise CgpuError(f"{self._path}: cannot be read ({error.strerror}); see: cgpu doctor") from error

    def _lines(self) -> Iterator[bytes]:
        if self._fd < 0:
            self._open()
        if not self._begun:
            # The newer one is open by now, so that a change in between loses nothing.
            self._begun = True
            yield from self._older()
        if self._fd < 0:
            return
        yield from self._grown()
        if self._is_replaced():
            yield from self._grown()
            self.close()
            self._open()
            yield from self._grown()

    def _open(self) -> None:
        self._rest = b""
        with contextlib.suppress(FileNotFoundError):
            self._fd = open_nofollow(self._path)

    def _older(self) -> list[bytes]:
        try:
            fd = open_nofollow(self._path + OLDER)
        except FileNotFoundError:
            return []
        try:
            if self._fd >= 0 and os.path.samestat(os.fstat(fd), os.fstat(self._fd)):
                return []
            return _read(fd).split(b"\n")
        finally:
            os.close(fd)

    def _grown(self) -> list[bytes]:
        if self._fd < 0:
            return []
        *lines, rest = (self._rest + _read(self._fd)).split(b"\n")
        self._rest = rest[:MAX_LINE]
        return lines

    def _is_replaced(self) -> bool:
        try:
            return not os.path.samestat(os.fstat(self._fd), os.lstat(self._path))
        except FileNotFoundError:
            return False


class KernelLog:
    """The lines of the kernel module about slices."""

    def __init__(self, path: str) -> None:
        """Open the kernel's log; where it cannot be read there are no such lines."""
        self._fd = -1
        with contextlib.suppress(OSError):
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)

    def close(self) -> None:
        """Give the file back."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def poll(self) -> list[Event]:
        """Return what is new."""
        return [] if self._fd < 0 else list(of_records(lambda: os.read(self._fd, MAX_RECORD)))


def of_records(read: Callable[[], bytes]) -> Iterator[Event]:
    """Yield the events of the kernel's log. read: returns the next record, as /dev/kmsg does."""
    booted = datetime.now(UTC) - timedelta(seconds=time.monotonic())
    while True:
        try:
            record = read()
        except OSError as error:
            if error.errno == errno.EPIPE:  # records were overwritten before they were read
                continue
            return
        if not record:
            return
        event = of_record(record, booted)
        if event is not None:
            yield event


def of_record(record: bytes, booted: datetime) -> Event | None:
    """Return the event of one record of the kernel's log; None for any other."""
    found = _RECORD.match(record.partition(b"\n")[0])
    if found is None:
        return None
    with contextlib.suppress(OverflowError):
        return of_words(booted + timedelta(microseconds=int(found[2])), found[3].decode("ascii"))
    return None


def _read(fd: int) -> bytes:
    chunks = []
    left = MAX_READ
    while left > 0 and (chunk := os.read(fd, min(left, 1 << 16))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)
