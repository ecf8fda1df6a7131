# SPDX-License-Identifier: Apache-2.0
"""Processes that the executor starts: they wait, write their results, give up rights."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

Json = Any

PATIENCE_S = 60.0
PAUSE_S = 0.01
CHUNK = 1 << 16
CLONE_NEWUSER = 0x10000000
CAPSET_VERSION = 0x20080522
NOBODY = 65534


class Process:
    """A process in a cgroup of its own, which waits until it is told to become its program."""

    def __init__(self, command: list[str], cgroup: str) -> None:
        """Fork it. cgroup: a directory, or nothing."""
        own_input, self._input = os.pipe2(os.O_CLOEXEC)
        self._output, own_output = os.pipe2(os.O_CLOEXEC)
        self.pid = os.fork()
        if self.pid == 0:
            self._become(command, own_input, own_output)
        self._text = b""
        self._status: int | None = None
        os.close(own_input)
        os.close(own_output)
        if cgroup:
            os.makedirs(cgroup, exist_ok=True)
            write_file(f"{cgroup}/cgroup.procs", str(self.pid))

    def _become(self, command: list[str], own_input: int, own_output: int) -> NoReturn:
        os.setsid()
        for fd, number in ((own_input, 0), (own_output, 1), (own_output, 2)):
            os.dup2(fd, number)
        os.closerange(3, 256)  # pipes of processes before it: their readers wait for the last copy to go
        if os.read(0, 1) and command:
            with contextlib.suppress(OSError):
                os.execv(command[0], command)
        os._exit(127)

    def go(self) -> None:
        """Let it become its program."""
        os.write(self._input, b"\n")

    def line(self, start: str) -> str:
        """Return the next line of output that begins so; at the end of the output nothing."""
        while True:
            line, newline, rest = self._text.partition(b"\n")
            if newline:
                self._text = rest
                if line.startswith(start.encode()):
                    return line.decode()
            elif not self._more():
                return ""

    def finish(self) -> dict[str, Json]:
        """Wait for its end; return its exit status and the rest of its output."""
        self.close_input()
        while self._more():
            pass
        self.wait()
        return {"status": self._status, "output": self._text.decode("ascii", "replace")}

    def close_input(self) -> None:
        if self._input >= 0:
            os.close(self._input)
            self._input = -1

    def kill(self) -> None:
        """End it and its group."""
        if self._status is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.wait()

    def wait(self) -> None:
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def close(self) -> None:
        self.close_input()
        os.close(self._output)

    def _more(self) -> bool:
        chunk = os.read(self._output, CHUNK)
        self._text += chunk
        return bool(chunk)


@contextlib.contextmanager
def opened(path: str, flags: int) -> Iterator[int]:
    """Have a file open for a while."""
    fd = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def write_whole(fd: int, text: str) -> None:
    """Make one write. Raises OSError, EIO when only a part was taken."""
    if os.write(fd, text.encode()) != len(text):
        raise OSError(errno.EIO, "only a part was taken")


def write_file(path: str, text: str, flags: int = os.O_WRONLY) -> None:
    """Open, write once, close."""
    with opened(path, flags | os.O_WRONLY) as fd:
        write_whole(fd, text)


def forked(action: Callable[[], Json]) -> tuple[int, int]:
    """Begin an action in a child; return its pid and where its JSON result comes from."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid:
        os.close(writer)
        return pid, reader
    try:
        os.write(writer, json.dumps(action()).encode())
    finally:
        os._exit(0)


def collected(pid: int, reader: int) -> Json:
    """Wait for a child's result."""
    with os.fdopen(reader, "rb") as stream:
        text = stream.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else {"broken": "the child ended without a result"}


def become(who: str) -> None:
    """Give up rights: "nobody" is a user, "plain" root without capabilities, "userns" root elsewhere."""
    libc = ctypes.CDLL(None, use_errno=True)
    if who == "nobody":
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    elif who == "plain":
        header = (ctypes.c_uint32 * 2)(CAPSET_VERSION, 0)
        if libc.capset(header, (ctypes.c_uint32 * 6)()):
            raise OSError(ctypes.get_errno(), "capset")
    elif who == "userns":
        if libc.unshare(CLONE_NEWUSER):
            raise OSError(ctypes.get_errno(), "unshare")
        for name, text in (("setgroups", "deny"), ("uid_map", "0 0 1"), ("gid_map", "0 0 1")):
            write_file(f"/proc/self/{name}", text)
    else:
        raise ValueError(who)


def remove_cgroup(path: str) -> None:
    """Remove a cgroup as soon as its processes are gone."""
    deadline = time.monotonic() + PATIENCE_S
    while os.path.isdir(path):
        try:
            os.rmdir(path)
        except OSError:
            if time.monotonic() > deadline:
                return
            time.sleep(PAUSE_S)
