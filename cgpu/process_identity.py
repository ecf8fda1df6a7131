# SPDX-License-Identifier: Apache-2.0
"""A process by its number and when it started, as the kernel gives numbers out again; whether it can end."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 64
PROC = Path("/proc")
UNKILLABLE_S = 2.0  # a process that was killed has so long to end


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process. started: in clock ticks after boot; 0 for NOBODY, and for a process that is not there."""

    pid: int
    started: int

    def is_meant(self) -> bool:
        """Tell whether the process that has the number now, if any, is the one that is meant."""
        return self.started != 0 and self.started == start_time(self.pid)

    def lives(self, proc: Path = PROC) -> bool:
        """Tell whether the one that is meant is there, and its first thread has not ended."""
        return self.started != 0 and self.started == living_start_time(self.pid, proc)

    def text(self) -> str:
        """Return the form that `parse` reads."""
        return f"{self.pid} {self.started}\n"

    def signal(self, number: int) -> bool:
        """Send a signal to this very process; tell whether it was there."""
        try:
            handle = os.pidfd_open(self.pid)
        except OSError:
            return False
        try:
            # The handle stays with one process, so the facts read now are that process's.
            if not self.is_meant():
                return False
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(handle, number)
            return True
        finally:
            os.close(handle)


NOBODY = ProcessIdentity(0, 0)


def own() -> ProcessIdentity:
    """Return this process."""
    return of(os.getpid())


def of(pid: int) -> ProcessIdentity:
    """Return the process that has the number now."""
    return ProcessIdentity(pid, start_time(pid))


def parse(text: bytes) -> ProcessIdentity:
    """Read "PID START"; NOBODY for all else."""
    words = text.split()
    if len(words) != 2 or not all(word.isdigit() for word in words):
        return NOBODY
    return ProcessIdentity(int(words[0]), int(words[1]))


def read(path: Path) -> ProcessIdentity:
    """Return the process that a file names; NOBODY where it cannot be read."""
    try:
        with path.open("rb") as stream:
            return parse(stream.read(MAX_BYTES))
    except OSError:
        return NOBODY


def start_time(pid: int, proc: Path = PROC) -> int:
    """Return when a process was started, in clock ticks after boot, a zombie too; 0 when there is none."""
    return _stat(pid, proc)[1]


def living_start_time(pid: int, proc: Path = PROC) -> int:
    """Return when a process was started; 0 when there is none, or its first thread has ended."""
    state, started = _stat(pid, proc)
    return 0 if state in ("", "Z", "X") else started


def parent_of(pid: int, proc: Path = PROC) -> int:
    """Return the parent of a process; 0 when there is none."""
    return int((_fields(pid, proc) or (b"", b"0"))[1])


def cgroup_text(pid: int, proc: Path = PROC) -> str:
    """Return the lines that the kernel has of a process's cgroups; empty where the process is gone."""
    try:
        return (proc / str(pid) / "cgroup").read_text(errors="surrogateescape")
    except OSError:
        return ""


def is_unkillable(process: ProcessIdentity) -> bool:
    """Tell whether a process was killed and cannot end: a thread waits where no signal reaches it.

    A container can bring that about with memory of a file system of its own that never answers. Such a
    process does nothing any more, but neither its parent nor its locks hear of its end. cgpud's first thread
    ends with it, never before. A process that nobody has waited for yet has no other thread.
    """
    state, started = _stat(process.pid, PROC)
    if state not in ("Z", "X"):
        return False
    # The threads are counted once the first one has ended: before that, they could all end by themselves.
    try:
        threads = len(os.listdir(f"/proc/{process.pid}/task"))
    except OSError:
        return False
    # If another process got the number meanwhile, it started at another time.
    return threads > 1 and process.started == started and start_time(process.pid) == started


def _stat(pid: int, proc: Path) -> tuple[str, int]:
    fields = _fields(pid, proc)
    return (fields[0].decode(), int(fields[19])) if fields else ("", 0)


def _fields(pid: int, proc: Path) -> list[bytes]:
    """Return what the kernel says of a process after its name; nothing when there is none."""
    try:
        fields = (proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return []
    return fields if len(fields) > 19 and all(field.isdigit() for field in (fields[1], fields[19])) else []
