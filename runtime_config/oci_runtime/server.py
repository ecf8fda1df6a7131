# SPDX-License-Identifier: Apache-2.0
"""cgpu-container-runtime-server: works out bundles for the wrapper: a start needs no new interpreter.

The server does the same as the wrapper's own Python (main.py). That does the start where no server runs,
where the server is of another version, sees other files or does not answer, and where anything fails, to say
what is wrong. launcher/server.c has the protocol.

Nothing of a bundle is changed here, since a server may be stopped at any moment, and go on when the start is
long done: the wrapper puts the new config.json in place, or has given up and finds nothing done. The server's
other writes can be repeated without harm: names for the event log, the runtime's features.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import os
import select
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING

from cgpu import paths, peers
from cgpu.arguments import Parser, exit_status
from cgpu.client.tree import Tree
from cgpu.config import effective
from cgpu.errors import CgpuError

# Not used here: imported before the first start comes, for what main.prepare() imports when it needs it.
from cgpu.hook import event_log  # noqa: F401
from cgpu.request import by_shares  # noqa: F401
from cgpu.runtime_config.oci_runtime import cdi, device_numbers, edit, lowlevel, main  # noqa: F401
from cgpu.runtime_config.oci_runtime.bundle import Bundle
from cgpu.runtime_config.oci_runtime.call import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

BACKLOG = 128
# As in launcher/server.c.
READY = b"ready 3"
MESSAGE_MAX = 1 << 16
CALL_WORDS = 3  # command, bundle, container
# Most seconds until a wrapper has sent its request.
REQUEST_TIMEOUT_S = 10.0
FIRST_INHERITED = 3  # sd_listen_fds(3)
PR_SET_PDEATHSIG = 1  # linux/prctl.h
# Each serves one start at a time, of which a millisecond or two are its own.
WORKERS = 4
# Then a worker is replaced: nothing that a start left behind stays for long.
CALLS_OF_WORKER = 1000
# Before a worker is replaced that has failed: it may fail at once each time.
PAUSE_S = 0.1
# Exit status of a worker that finds another wrapper than the one it began with.
CHANGED = 3
SIGNALS = (signal.SIGTERM, signal.SIGCHLD)

# Inode, time of the last change, and size of each of the wrapper's programs.
Launchers = set[tuple[int, int, int]]


def parser() -> argparse.ArgumentParser:
    made = Parser(
        prog="cgpu-container-runtime-server",
        description="Prepare bundles for cgpu-container-runtime, which is faster than that program alone. "
        "systemd starts it by cgpu-container-runtime.socket.",
        examples=("cgpu-container-runtime-server",),
    )
    made.add_argument(
        "--socket",
        metavar="PATH",
        default=paths.RUNTIME_SOCKET,
        help=f"where to listen when systemd has not given a socket (default {paths.RUNTIME_SOCKET})",
    )
    return made


def run(arguments: Sequence[str] | None = None) -> int:
    """Serve until it is ended, or until its files have changed."""
    options = parser().parse_args(arguments)
    return exit_status("cgpu-container-runtime-server", lambda: serve(_listener(options.socket)))


def _listener(path: str) -> socket.socket:
    if os.environ.get("LISTEN_PID") == str(os.getpid()) and os.environ.get("LISTEN_FDS") == "1":
        inherited = socket.socket(fileno=FIRST_INHERITED)
        inherited.set_inheritable(False)
        return inherited
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if made.connect_ex(path) == 0:
        raise CgpuError(f"{path}: a server listens there already, most often systemd's; expected none")
    old = os.umask(0o177)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        made.bind(path)
    except OSError as error:
        raise CgpuError(f"{path}: cannot listen there ({error.strerror}); run it as root") from error
    finally:
        os.umask(old)
    made.listen(BACKLOG)
    return made


def serve(listener: socket.socket) -> None:
    """Have workers take the connections, each one at a time; one that ends is replaced.

    Returns when the wrapper was replaced, as by an upgrade: systemd starts the server anew, as it is then.
    """
    launchers = known_launchers()
    os.chdir("/")
    gc.collect()
    gc.freeze()
    # Another worker may be faster.
    listener.setblocking(False)
    workers: set[int] = set()
    # They are waited for, so that none comes between a fork and the note of its worker.
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        while CHANGED not in (ended := _reap(workers)):
            if any(ended):
                time.sleep(PAUSE_S)
            while len(workers) < WORKERS:
                workers.add(_fork_worker(listener, launchers))
            if signal.sigwait(SIGNALS) == signal.SIGTERM:
                return
    finally:
        for worker in workers:
            os.kill(worker, signal.SIGTERM)


def _reap(workers: set[int]) -> list[int]:
    """Take out the workers that have ended; return their exit statuses."""
    found = [os.waitpid(worker, os.WNOHANG) for worker in workers]
    workers.difference_update(worker for worker, _ in found)
    return [os.waitstatus_to_exitcode(status) for worker, status in found if worker]


def _fork_worker(listener: socket.socket, launchers: Launchers) -> int:
    server = os.getpid()
    worker = os.fork()
    if worker == 0:
        status = 1
        try:
            # A worker ends with its server; a server that is started again starts workers too.
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            # The server may have been killed before prctl().
            status = _work(listener, launchers) if os.getppid() == server else 0
        finally:
            os._exit(status)
    return worker


def _work(listener: socket.socket, launchers: Launchers) -> int:
    # One worker wakes, and of those that wait always the same: its memory is in the caches.
    waiting = select.epoll()
    waiting.register(listener, select.EPOLLIN | select.EPOLLEXCLUSIVE)
    for _ in range(CALLS_OF_WORKER):
        with _accept(listener, waiting) as connection:
            if known_launchers() != launchers:
                return CHANGED
            connection.settimeout(REQUEST_TIMEOUT_S)
            # The wrapper meets every error too, and reports it.
            with contextlib.suppress(CgpuError, OSError, ValueError, peers.RefusedError):
                _check_caller(connection, launchers)
                connection.sendall(READY)
                _prepare(connection)
    return 0


def _accept(listener: socket.socket, waiting: select.epoll) -> socket.socket:
    while True:
        waiting.poll()
        with contextlib.suppress(BlockingIOError):
            return listener.accept()[0]


def known_launchers() -> Launchers:
    """Return the identities of the wrapper's programs, which are of this program's version."""
    programs = (lowlevel.LAUNCHER, lowlevel.low_level(lowlevel.LAUNCHER))
    return {identity(path) for path in programs if os.path.exists(path)}


def identity(path: str) -> tuple[int, int, int]:
    """Return what changes when a file is replaced or written. Raises OSError."""
    status = os.stat(path)
    return status.st_ino, status.st_mtime_ns, status.st_size


def _check_caller(connection: socket.socket, launchers: Launchers) -> None:
    """Raise RefusedError unless the wrapper of root of the host asks, of this version, with the same root."""

    def rule(pid: int) -> None:
        peers.check_namespaces(pid)
        if identity(f"/proc/{pid}/exe") not in launchers:
            raise peers.RefusedError("another program than the wrapper asks")
        theirs, own = f"/proc/{pid}/root", "/proc/self/root"
        # The same folder is another root where it is mounted a second time, with other mounts below.
        if os.readlink(theirs) != os.readlink(own) or not os.path.samefile(theirs, own):
            raise peers.RefusedError("a process with another root asks")

    peers.check_peer(connection, rule)


def _prepare(connection: socket.socket) -> None:
    message, folders, flags, _ = socket.recv_fds(connection, MESSAGE_MAX, 1)
    try:
        if len(folders) == 1 and not flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            os.set_inheritable(folders[0], False)  # by a runtime that is asked for its features
            os.fchdir(folders[0])
            below, *words = map(os.fsdecode, message.split(b"\0"))
            if len(words) == CALL_WORDS:
                _prepare_call(connection, Call(*words), plain=below == "b")
    finally:
        # A worker must not hold a folder, and with it a mount, of a container that may end.
        os.chdir("/")
        for folder in folders:
            os.close(folder)


def _prepare_call(connection: socket.socket, call: Call, *, plain: bool) -> None:
    config = effective.load()
    runtime = lowlevel.find(config.low_level_runtime, plain=plain)
    tree = Tree(paths.tree(config.tree))
    # Raises where the engine is down: the wrapper waits for it, and says so.
    tree.kind()
    if _is_gone(connection):
        return
    with Bundle(call.bundle) as bundle:
        prepared = main.prepare(bundle.read(), call, config.replace(low_level_runtime=runtime), runtime, tree)
        answer = os.fsencode(runtime)
        if prepared is None:
            connection.sendall(answer)
            return
        edited, edits, annotations = prepared
        # The unit may make none: the wrapper does, once for each card and start of the machine.
        if not device_numbers.are_published(edits):
            return
        with open(os.memfd_create("config.json"), "wb") as file:
            file.write(edited)
            file.flush()
            socket.send_fds(connection, [answer], [file.fileno(), *bundle.descriptors()])
        # The start goes on meanwhile.
        main.record_name(call, annotations)


def _is_gone(connection: socket.socket) -> bool:
    """Return whether the wrapper has ended, or given up: then nothing is to be done for it any more."""
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    return bool(waiting.poll(0))  # it says nothing before it has an answer


if __name__ == "__main__":
    sys.exit(run())
