# SPDX-License-Identifier: Apache-2.0
"""Seccomp listeners: taken from runtimes, kept in the descriptor store, handed to the engine."""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import re
import secrets
import select
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cgpu.errors import CgpuError, show
from cgpu.kmod.daemon.listeners.process_filters import ProcessFilters
from cgpu.kmod.daemon.store.notify_socket import LISTENER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cgpu.kmod.daemon.engine import Container, Engine
    from cgpu.kmod.daemon.store.notify_socket import NotifySocket

log = logging.getLogger(__name__)

MAX_FDS = 8
MAX_BYTES = 1 << 20
FD_NAME = "seccompFd"
MAX_PID = 1 << 22
ID = re.compile(r"[A-Za-z0-9_+.-]{1,127}")
WAIT_S = 5.0  # for the rest of one message
HEX = "[0-9a-f]"
NAME = re.compile(rf"{LISTENER}({HEX}{{1,3}})-({HEX}{{1,16}})-({HEX}{{1,8}})")
# Two listeners with one serial are refused. Longer ones make names too long for the next start.
SERIAL_BITS = 31
ANON_LINK = "anon_inode:seccomp notify"
SHARE_USED = (
    "container {id}: it has as many seccomp listeners as one container may: end processes that exec or a "
    "probe has left behind in it"
)


class QuotaError(CgpuError):
    """A container has its share of the listeners."""


def store_name(slot: int, generation: int, serial: int) -> str:
    """Return the name of a listener in the descriptor store, in hexadecimal numbers.

    Short: all names are one variable of the next daemon's environment, of which Linux takes 128 KiB
    (MAX_ARG_STRLEN), and the store has 4,096.
    """
    return f"{LISTENER}{slot:x}-{generation:x}-{serial:x}"


@dataclass(frozen=True, slots=True)
class ProcessState:
    """A runtime's message with a listener: the container, and which of the descriptors is the listener.

    https://github.com/opencontainers/runtime-spec/blob/v1.2.0/config-linux.md#the-container-process-state
    pid: of the process that has the filter; 0 where the message does not say.
    """

    container_id: str
    listener: int
    pid: int = 0


def parse(text: bytes, descriptors: int) -> ProcessState:
    """Read the message. descriptors: how many came with it. Raises CgpuError."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CgpuError("the listener's message is not JSON") from error
    if not isinstance(document, dict):
        raise CgpuError("the listener's message is no object")
    state, names = document.get("state"), document.get("fds")
    container_id = state.get("id") if isinstance(state, dict) else None
    if not isinstance(container_id, str) or not ID.fullmatch(container_id):
        raise CgpuError(f"the listener's message names no container: {show(container_id)}")
    pid = document.get("pid")
    if not isinstance(pid, int) or not 0 < pid <= MAX_PID:
        pid = 0
    return ProcessState(container_id, _index(names, descriptors), int(pid))


def complete(text: bytes) -> bool:
    """Tell whether the message has come whole: runtimes may send it in parts."""
    stripped = text.rstrip()
    if not stripped.endswith(b"}"):
        return False
    try:
        json.loads(stripped)
    except (ValueError, RecursionError):
        return False
    return True


def _index(names: Any, descriptors: int) -> int:
    if not isinstance(names, list) or names.count(FD_NAME) != 1:
        raise CgpuError(f"the listener's message does not say which descriptor is {FD_NAME}")
    index = names.index(FD_NAME)
    if len(names) != descriptors or index >= descriptors:
        raise CgpuError(f"the listener's message names {len(names)} descriptors and brings {descriptors}")
    return int(index)


class Delivery:
    """One connection of a runtime, until its message has come whole."""

    def __init__(self, sock: socket.socket) -> None:
        """Take an accepted connection over."""
        self.sock = sock
        self.deadline = time.monotonic() + WAIT_S
        self._text = b""
        self._fds: list[int] = []

    def receive(self) -> bool:
        """Read all that has come. True when the message is whole. Raises CgpuError or OSError."""
        data, fds, flags, _ = socket.recv_fds(self.sock, 1 << 16, MAX_FDS)
        for fd in fds:
            os.set_inheritable(fd, False)
        self._fds += fds
        self._text += data
        if flags & socket.MSG_CTRUNC or len(self._fds) > MAX_FDS:
            raise CgpuError(f"a runtime sent more than {MAX_FDS} descriptors")
        if len(self._text) > MAX_BYTES:
            raise CgpuError(f"a runtime sent more than {MAX_BYTES} bytes")
        return not data or complete(self._text)

    def take(self) -> tuple[ProcessState, int]:
        """Return the message and its listener, which is the caller's then. Raises CgpuError."""
        state = parse(self._text, len(self._fds))
        return state, self._fds.pop(state.listener)

    def close(self) -> None:
        """Close the connection and every descriptor that nobody took."""
        for fd in self._fds:
            os.close(fd)
        self._fds = []
        self.sock.close()


@contextlib.contextmanager
def copy_of(fd: int) -> Iterator[None]:
    """Have a copy of a descriptor open. Raises OSError, and closes the descriptor then."""
    try:
        copy = os.dup(fd)
    except OSError:
        os.close(fd)
        raise
    try:
        yield
    finally:
        os.close(copy)


class Listeners:
    """The engine's listeners, and the names under which they are stored."""

    def __init__(self, engine: Engine, notify: NotifySocket, is_shared: Callable[[], bool]) -> None:
        """Begin with none. is_shared: whether the node's users do not trust each other."""
        self._engine = engine
        self._notify = notify
        self.filters = ProcessFilters(engine, is_shared)
        self._names: dict[int, str] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._names)

    def descriptors(self) -> dict[str, int]:
        """Return the descriptors by the names under which they are stored, while the engine pauses."""
        found = {name: self._engine.listener_fd(serial) for serial, name in self._names.items()}
        return {name: fd for name, fd in found.items() if fd >= 0}

    def accept(self, state: ProcessState, fd: int) -> None:
        """Attach a new listener to its container, or close it and end its process. Raises CgpuError."""
        container = self._engine.find(state.container_id)
        # While this copy is open, the kernel lets the process have no listener of its own, which would get
        # its driver calls.
        with copy_of(fd):
            try:
                self._take(container, state, fd)
            except (CgpuError, OSError) as error:
                fate = self.filters.end_refused(container, state.container_id, state.pid)
                raise CgpuError(f"{error}{fate}") from error
        log.info("container %s: listener attached", state.container_id)
        if container is not None and state.pid:
            self.filters.inspect(container, state.pid)

    def _take(self, container: Container | None, state: ProcessState, fd: int) -> None:
        serial = secrets.randbits(SERIAL_BITS) + 1
        try:
            if container is None:
                raise CgpuError(f"container {state.container_id}: is not registered: its listener is closed")
            if os.readlink(f"/proc/self/fd/{fd}") != ANON_LINK:
                raise CgpuError(f"container {state.container_id}: what came is no seccomp listener")
            name = store_name(container.slot, container.generation, serial)
            # Stored first: if this process dies in between, the next daemon has it.
            self._store(name, fd, state.container_id)
        except (CgpuError, OSError):
            os.close(fd)
            raise
        try:
            self._attach(fd, (container.slot, container.generation, serial), name)
        except QuotaError as error:
            raise CgpuError(SHARE_USED.format(id=state.container_id)) from error

    def restore_all(self, left: list[tuple[str, int]]) -> None:
        """Take up the listeners that an earlier engine left in the store."""
        for name, fd in left:
            with contextlib.suppress(CgpuError):
                self.restore(name, fd)
        if self._names:
            log.info("took up %d listeners", len(self._names))

    def restore(self, name: str, fd: int) -> None:
        """Take up a listener of the store; one that fits nothing is closed. Raises CgpuError."""
        found = NAME.fullmatch(name)
        if found is None:
            os.close(fd)
            self._notify.discard(name)
            return
        slot, generation, serial = (int(part, 16) for part in found.groups())
        self._attach(fd, (slot, generation, serial), name, kept=True)

    def gone(self, serial: int) -> None:
        """Forget a listener that has no task left. The store drops a descriptor that has hung up."""
        self._names.pop(serial, None)

    def drop_gone(self) -> None:
        """Forget every listener that the engine serves no more: its line may not have come through."""
        for serial in [serial for serial in self._names if not self._engine.serves(serial)]:
            self.gone(serial)

    def discard_all(self) -> None:
        """Take every listener out of the store: no engine will serve them again."""
        for name in self._names.values():
            self._notify.discard(name)
        self._names.clear()

    def _store(self, name: str, fd: int, container_id: str) -> None:
        try:
            self._notify.store(name, fd)
        except OSError as error:
            # Served all the same: without us its calls would fail from the start.
            log.error(
                "container %s: its listener cannot be kept beyond this daemon (%s): start cgpud anew",
                container_id,
                error.strerror,
            )

    def _attach(self, fd: int, key: tuple[int, int, int], name: str, *, kept: bool = False) -> None:
        try:
            self._engine.attach(fd, *key, kept=kept)
        except OSError as error:
            self._notify.discard(name)
            if error.errno == errno.EDQUOT:
                raise QuotaError(name) from error
            raise CgpuError(f"listener {name}: cannot be attached: {error.strerror}") from error
        self._names[key[2]] = name


class ListenerSocket:
    """The socket runtimes send listeners to. Only processes that may write to the tree find it there."""

    def __init__(
        self, path: str, listeners: Listeners, sock: socket.socket, left: socket.socket | None = None
    ) -> None:
        """Have a path lead to the socket. Raises OSError.

        left: that of the program before this one, at which a runtime may have just connected.
        """
        self._path = path
        self.listeners = listeners
        self.sock = sock
        self._accepting = {one.fileno(): one for one in (sock, left) if one is not None}
        self._poll = select.epoll()
        for fd in self._accepting:
            self._poll.register(fd, select.EPOLLIN)
        fresh = f"{path}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)
        os.symlink(sock.getsockname(), fresh)
        os.rename(fresh, path)
        self._deliveries: dict[int, Delivery] = {}

    def fileno(self) -> int:
        """A descriptor that is readable when there is something to do."""
        return self._poll.fileno()

    def handle(self) -> None:
        """Take connections and messages that are there."""
        for fd, _ in self._poll.poll(0):
            if fd in self._accepting:
                self._connect(self._accepting[fd])
            else:
                self._receive(fd)

    def is_idle(self) -> bool:
        """Tell whether no message has begun to come."""
        return not self._deliveries

    def expire(self) -> None:
        """Close connections whose message never came whole."""
        now = time.monotonic()
        for fd in [fd for fd, d in self._deliveries.items() if d.deadline < now]:
            self._end(fd)

    def close(self) -> None:
        """Close everything and take the socket away."""
        for fd in list(self._deliveries):
            self._end(fd)
        self._poll.close()
        for sock in self._accepting.values():
            sock.close()
        with contextlib.suppress(OSError):
            os.unlink(self._path)

    def _connect(self, accepting: socket.socket) -> None:
        try:
            sock, _ = accepting.accept()
        except OSError:
            return
        sock.setblocking(False)
        try:
            self._poll.register(sock, select.EPOLLIN)
        except OSError as error:
            log.warning("listeners' socket: %s", error)
            sock.close()
            return
        self._deliveries[sock.fileno()] = Delivery(sock)

    def _receive(self, fd: int) -> None:
        delivery = self._deliveries[fd]
        try:
            if delivery.receive():
                self.listeners.accept(*delivery.take())
                self._end(fd)
        except BlockingIOError:
            return
        except (CgpuError, OSError) as error:
            log.warning("%s", error)
            self._end(fd)

    def _end(self, fd: int) -> None:
        self._poll.unregister(fd)
        self._deliveries.pop(fd).close()
