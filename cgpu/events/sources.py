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
# "priority,number,microseconds,flags;text"; below 8 the priority's facility is the kernel's.
_RECORD: Final = re.compile(rb"([0-7]),[0-9]+,([0-9]{1,18}),[^;]*;cgpu_km: (event=[!-~ ]*)")


class LogFile:
    """The event log, read from its begin and then as it grows."""

    def __init__(self, path: str) -> None:
        """Nothing is read yet."""
        self._path = path
        self._read: dict[int, int] = {}  # bytes of each file, by its inode: the newer one becomes the older

    def poll(self) -> list[Event]:
        """Return what is new. Raises CgpuError when it cannot be read."""
        try:
            lines = [line for path in (self._path + OLDER, self._path) for line in self._grown(path)]
        except PermissionError as error:
            raise CgpuError("only root reads the event log; run it as root, such as by sudo") from error
        except OSError as error:
            raise CgpuError(f"{self._path}: cannot be read ({error.strerror}); see: cgpu doctor") from error
        return [event for line in lines if (event := of_line(line)) is not None]

    def _grown(self, path: str) -> list[bytes]:
        """Return the whole lines that a file has got."""
        try:
            fd = open_nofollow(path)
        except FileNotFoundError:
            return []
        try:
            status = os.fstat(fd)
            begin = self._read.get(status.st_ino, 0)
            # A smaller file is another one, which has got the inode.
            begin = begin if begin <= status.st_size else 0
            lines = os.pread(fd, MAX_READ, begin).split(b"\n")[:-1]
            self._read[status.st_ino] = begin + sum(len(line) + 1 for line in lines)
            return lines
        finally:
            os.close(fd)


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
