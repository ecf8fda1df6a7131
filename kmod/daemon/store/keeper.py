# SPDX-License-Identifier: Apache-2.0
"""The keeper, which serves cgpud as systemd's service manager does, where there is no systemd.

The keeper starts the daemon again when it dies, holds its descriptors meanwhile, and speaks the same
protocol, so that the daemon has one code path.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from cgpu import peers, process_identity
from cgpu.errors import CgpuError
from cgpu.kmod.daemon import program
from cgpu.kmod.daemon.store import fd_store
from cgpu.kmod.daemon.store.notify_socket import END, FIRST_FD, LISTENER, RESERVED, START, STOP
from cgpu.kmod.daemon.tree import mounts
from cgpu.process_identity import UNKILLABLE_S, is_unkillable
from cgpu.unix_socket import await_event

if TYPE_CHECKING:
    from cgpu.kmod.daemon.places import Places
    from cgpu.process_identity import ProcessIdentity

log = logging.getLogger(__name__)

RESTART_S = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # waits between restarts; the last one repeats
RETRY_S = 1.0  # where none can be begun at all
SETTLED_S = 60.0  # a daemon that lived this long starts the row over
PROGRAM = "CGPU_PROGRAM"  # the program that the daemon has become
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


@dataclass(slots=True)
class Child:
    """The running daemon."""

    identity: ProcessIdentity
    pidfd: int
    started: float
    ready: bool = False
    stopping: bool = False
    killed: float | None = None  # since when its first thread has ended

    @property
    def pid(self) -> int:
        """Its number."""
        return self.identity.pid


def worker_environment(
    pid: int, socket: str, names: Sequence[str], started_by: program.Program | None = None
) -> dict[str, str]:
    """Return the environment of the protocol."""
    environment = (started_by or program.own()).environment()
    environment["NOTIFY_SOCKET"] = socket
    environment["LISTEN_PID"] = str(pid)
    environment["LISTEN_FDS"] = str(len(names))
    environment["LISTEN_FDNAMES"] = ":".join(names)
    return environment


def place_fds(fds: Sequence[int]) -> None:
    """Put a child's descriptors at 3, 4, and on, open over exec."""
    # First out of the way of their targets, or one would overwrite another.
    high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, FIRST_FD + len(fds)) for fd in fds]
    for number, fd in enumerate(high, FIRST_FD):
        os.dup2(fd, number, inheritable=True)


def report(fd: int, line: str) -> None:
    """Report how a start ended to the caller that waits for it, if it still does."""
    with contextlib.suppress(OSError):
        os.write(fd, line.encode() + b"\n")
    os.close(fd)


def check_sender(message: fd_store.Message) -> None:
    """Raise RefusedError unless root of the host gives this order."""

    def rule(pid: int) -> None:
        peers.check_namespaces(pid)
        # On a kernel that gives no pidfd the number may be another's by now. The sender waits at a pipe.
        if message.pidfd < 0:
            if not message.fds:
                raise peers.RefusedError("an order comes without a pipe for its answer")
            peers.check_has_open(pid, message.fds[0])

    peers.check(message.pid, message.uid, message.pidfd, rule)


class Keeper:
    """Starts, watches and restarts the daemon."""

    def __init__(self, places: Places, tree: str, arguments: Sequence[str], report_fd: int) -> None:
        """report_fd gets "ready", or one line that says why the first start failed, and is closed."""
        self._places = places
        self._tree = tree
        self._arguments = list(arguments)
        self._report: Callable[[str], None] | None = partial(report, report_fd)
        self._repeat = False  # one that ends before it was ready is started again
        self._before: list[str] | None = None  # to go back to when these arguments are refused
        self._waiting: list[int] = []  # closed when no daemon runs any more
        # No order replaces it: only a daemon that has become another program does.
        self._program = program.own()
        self._store = fd_store.FdStore()
        self._socket = fd_store.bind(str(places.keeper))
        self._child: Child | None = None
        self._failures = 0
        self._due: float | None = None
        self._status = ""
        self._end = False

    def run(self) -> int:
        """Keep the daemon up until it stops and nothing is left to hold. Returns the exit status."""
        reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        for number in SIGNALS:
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        self._start()
        poll = select.poll()
        for fd in (reader, self._socket.fileno(), self._store.fileno()):
            poll.register(fd, select.POLLIN)
        status: int | None = None
        while status is None:
            self._wait(poll)
            with contextlib.suppress(BlockingIOError):
                self._on_signals(os.read(reader, 64))
            self._on_messages()
            self._store.drop_hung_up()
            status = self._check()
        self._close()
        return status

    def _wait(self, poll: select.poll) -> None:
        pidfd = self._child.pidfd if self._child else None
        if pidfd is not None:
            poll.register(pidfd, select.POLLIN)
        timeout = None if pidfd is None else UNKILLABLE_S * 1000 / 2
        if self._due is not None:
            timeout = max(0.0, self._due - time.monotonic()) * 1000
        poll.poll(timeout)
        if pidfd is not None:
            poll.unregister(pidfd)

    def _start(self) -> None:
        entries = self._store.entries()
        self._due = None
        self._status = ""
        try:
            self._child = self._begin(entries)
        except OSError as error:
            # Memory or processes are short for a moment: the descriptors must survive that.
            log.error("cgpud cannot be started: %s; trying again", error.strerror)
            self._due = time.monotonic() + RETRY_S

    def _begin(self, entries: list[tuple[str, int]]) -> Child:
        pid = os.fork()
        if pid == 0:
            self._become_worker(entries)
        try:
            return Child(process_identity.of(pid), os.pidfd_open(pid), time.monotonic())
        except OSError:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise

    def _become_worker(self, entries: list[tuple[str, int]]) -> None:
        try:
            signal.set_wakeup_fd(-1)
            for number in SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            environment = worker_environment(
                os.getpid(), str(self._places.keeper), [name for name, _ in entries], self._program
            )
            place_fds([fd for _, fd in entries])
            command = self._program.command("--worker", *self._arguments)
            os.execve(command[0], command, environment)
        finally:
            os._exit(127)

    def _on_signals(self, numbers: bytes) -> None:
        for number in numbers:
            if number == signal.SIGCHLD:
                continue
            if self._child is not None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._child.pidfd, number)
            elif number != signal.SIGHUP:
                self._end = True

    def _on_messages(self) -> None:
        while (message := fd_store.receive(self._socket)) is not None:
            if self._child is not None and message.pid == self._child.pid:
                if message.pidfd >= 0:
                    os.close(message.pidfd)
                self._on_worker(message)
                continue
            # Closed at once where an order is not followed, so that the sender does not wait.
            fds = list(message.fds)
            try:
                check_sender(message)
                self._on_order(message.fields, fds)
            except peers.RefusedError as error:
                peers.report("the keeper", error)
            for fd in fds:
                os.close(fd)

    def _on_worker(self, message: fd_store.Message) -> None:
        fields, child = message.fields, self._child
        assert child is not None
        name = fields.get("FDNAME", "stored")
        if fields.get("FDSTORE") == "1":
            if not self._store.add(name, message.fds, watched=fields.get("FDPOLL") != "0"):
                log.error("the descriptor store takes no more: %s", name)
        else:
            for fd in message.fds:
                os.close(fd)
        if fields.get("FDSTOREREMOVE") == "1":
            self._store.remove(name)
        self._status = fields.get("STATUS", self._status)
        child.stopping = child.stopping or fields.get("STOPPING") == "1"
        if fields.get("READY") == "1":
            child.ready = True
            self._repeat = not self._end
            self._before = None
            self._report_start("ready")
        if PROGRAM in fields:
            try:
                self._program = program.parse(fields[PROGRAM])
            except CgpuError as error:
                log.error("cgpud names no program for its next start: %s", error)

    def _on_order(self, fields: dict[str, str], fds: list[int]) -> None:
        """Carry out another cgpud's order. Takes the descriptors that it keeps out of fds."""
        if START in fields and self._child is None:
            with contextlib.suppress(ValueError, RecursionError):
                arguments = json.loads(fields[START])
                if isinstance(arguments, list) and all(isinstance(a, str) for a in arguments):
                    self._start_anew(arguments, fds)
        if STOP in fields or END in fields:
            self._end = self._end or END in fields
            self._repeat = False
            self._due = None
            if self._child is not None:
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._child.pidfd, signal.SIGTERM)
                self._waiting += fds
                fds.clear()

    def _start_anew(self, arguments: list[str], fds: list[int]) -> None:
        if fds:
            self._report = partial(report, fds.pop(0))
        # Asked for once. Only where it is tried again and again already it is so from then on, too.
        self._repeat = self._due is not None
        self._before, self._arguments = self._arguments, arguments
        self._failures = 0
        self._start()

    def _check(self) -> int | None:
        if self._child is not None and self._ended():
            return self._after_end(self._child)
        if self._child is None:
            if self._end or (self._due is None and not self._holds()):
                return 0
            if self._due is not None and time.monotonic() >= self._due:
                self._start()
        return None

    def _ended(self) -> bool:
        assert self._child is not None
        return await_event(self._child.pidfd, 0) or self._cannot_end(self._child)

    def _cannot_end(self, child: Child) -> bool:
        """Tell whether the daemon was killed long ago, and has threads that cannot end."""
        if not is_unkillable(child.identity):
            return False
        child.killed = child.killed or time.monotonic()
        return time.monotonic() - child.killed > UNKILLABLE_S

    def _after_end(self, child: Child) -> int | None:
        # Messages that the daemon sent before its end still count.
        self._on_messages()
        code = self._exit_code(child)
        os.close(child.pidfd)
        self._child = None
        # Readers of a dead daemon's tree must not wait for anyone.
        try:
            mounts.clear_fuse(self._tree, force=is_unkillable(child.identity))
        except OSError as error:
            log.error("%s: cannot be unmounted: %s", self._tree, error.strerror)
        for fd in self._waiting:
            os.close(fd)
        self._waiting = []
        if self._end:
            return 0
        if child.stopping and code == 0:
            return None if self._holds() else 0
        if not child.ready:
            self._report_start(self._status or f"cgpud ended with status {code} before it was ready")
            self._arguments = self._before or self._arguments
            self._before = None
        if not self._repeat:
            return None if self._holds() else 1
        lived = time.monotonic() - child.started
        self._failures = 0 if lived > SETTLED_S else self._failures + 1
        wait_s = RESTART_S[min(self._failures, len(RESTART_S)) - 1] if self._failures else 0.0
        log.error("cgpud ended with status %d: %s; starting it again", code, self._status or "no message")
        self._due = time.monotonic() + wait_s
        return None

    def _exit_code(self, child: Child) -> int:
        pid, status = os.waitpid(child.pid, os.WNOHANG)
        if pid == 0:
            log.error(
                "cgpud has threads that cannot end: process %d stays, and does nothing any more", child.pid
            )
            return 0 if child.stopping else -signal.SIGKILL
        return os.waitstatus_to_exitcode(status)

    def _holds(self) -> bool:
        """Tell whether something waits for the next start: containers, or reservations."""
        return any(name.startswith(LISTENER) or name == RESERVED for name, _ in self._store.entries())

    def _report_start(self, line: str) -> None:
        if self._report is not None:
            self._report(line)
        self._report = None

    def _close(self) -> None:
        self._store.close()
        self._socket.close()
        for path in (self._places.keeper, self._places.lock):
            path.unlink(missing_ok=True)
