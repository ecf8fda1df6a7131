# SPDX-License-Identifier: Apache-2.0
"""A daemon is followed by another one while containers run: the side of the one that runs.

The successor makes all ready while we serve. Then we stop between two calls and give it what we have. Until
we have said that it is the daemon, whatever fails there leaves us as we were; from then on we only pass on
what still comes to our tree.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from cgpu import __version__
from cgpu.errors import CgpuError, one_line
from cgpu.kmod.daemon.arguments import Arguments, worker_arguments
from cgpu.kmod.daemon.store.keeper import PROGRAM
from cgpu.kmod.daemon.store.notify_socket import is_heard
from cgpu.kmod.daemon.tree import mounts
from cgpu.kmod.daemon.tree.handover import ElsewhereFs
from cgpu.kmod.daemon.upgrade.channel import MAX_FDS, PROTOCOL, Channel, ChannelError
from cgpu.kmod.daemon.upgrade.real_time import urgent

if TYPE_CHECKING:
    from cgpu.kmod.daemon.engine import Engine
    from cgpu.kmod.daemon.listeners.listener import Listeners
    from cgpu.kmod.daemon.memory_backend.driver_limits import DriverLimits
    from cgpu.kmod.daemon.program import Program
    from cgpu.kmod.daemon.store.notify_socket import NotifySocket
    from cgpu.kmod.daemon.tree.handover import Gate
    from cgpu.kmod.daemon.tree.tree_fs import TreeFs

log = logging.getLogger(__name__)

PREPARE_S = 120.0  # a driver that is not in the table is checked in this time
TAKE_S = 2.0  # containers wait meanwhile
SERVE_S = 10.0
PAUSE_MS = 60  # for calls that are under way
STEP_MS = 10
PATIENCE_S = 15.0  # for a moment in which no call takes longer than that
RETRY_S = 0.25
LINGER_S = 10.0  # for who has a node of our tree open
ENDING_S = 1.0
ARRIVE_S = 0.2  # for who was on his way to it
NO_KEEPER = (
    "the keeper of cgpud has died, so no other cgpud can hold what containers need; "
    "when no sliced container runs: cgpud --stop, then cgpud"
)


class State(Enum):
    """How far it is."""

    PREPARING = "the successor prepares"
    WAITING = "for a moment without long calls"
    ENDED = "nothing has changed"


@dataclass(frozen=True, slots=True)
class Estate:
    """What one daemon has and the next one takes over."""

    arguments: Arguments
    notify: NotifySocket
    engine: Engine
    listeners: Listeners
    tree: TreeFs
    gate: Gate
    tree_path: str
    state_name: str  # in the store
    sockets: dict[str, int]  # descriptors by name, and the lock
    managed: bool  # by systemd
    backend: str  # who limits memory
    limits: DriverLimits | None
    is_quiet: Callable[[], bool]  # nothing has come in half
    must_stop: Callable[[], bool]  # somebody has told the daemon to end
    events: Callable[[], None]  # answers what a worker waits for


class Giving:
    """One attempt. Ask `state` and `result`; it does not return from a success."""

    def __init__(self, estate: Estate, program: Program, number: str, *, rehearse: bool) -> None:
        """Start the successor. number: of this attempt. rehearse: only to see it ready. Raises CgpuError."""
        keeper = None if estate.managed else estate.notify.address
        if keeper is not None and not is_heard(Path(keeper)):
            raise CgpuError(NO_KEEPER)
        self.state = State.PREPARING
        self.result: dict[str, Any] = {"number": number, "done": False}
        self._rehearse = rehearse
        self._estate = estate
        self._program = program
        self._pid = 0
        self._pidfd = -1
        self._until = time.monotonic() + PREPARE_S
        self._next = 0.0
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        self._channel = Channel(ours)
        hello = {"say": "hello", "protocol": PROTOCOL, "version": __version__, "number": number}
        about = {
            "state_name": estate.state_name,
            "tree": estate.tree_path,
            "managed": estate.managed,
            "backend": estate.backend,
            "driver": estate.engine.status()["driver"],
            "uuids": [gpu.uuid for gpu in estate.engine.gpus()],
            "containers": sum(1 for _ in estate.engine.containers()),
        }
        with theirs:
            self._channel.send({**hello, **about}, [estate.engine.state_fd])
            self._started = self._spawn(theirs)
        log.info("upgrade: %s takes over from version %s", program.argv[0], __version__)

    def _spawn(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        arguments = self._estate.arguments
        number = str(theirs.fileno())
        command = self._program.command("--worker", *worker_arguments(arguments), "--successor", number)
        environment = self._program.environment()
        if self._estate.notify.address is not None:
            environment["NOTIFY_SOCKET"] = self._estate.notify.address.replace("\0", "@", 1)
        errors = None if arguments.foreground else arguments.places.log.open("ab")
        try:
            with errors or contextlib.nullcontext():
                return subprocess.Popen(
                    command,
                    env=environment,
                    pass_fds=[theirs.fileno()],
                    stderr=errors,
                    start_new_session=True,
                )
        except OSError as error:
            raise CgpuError(f"{self._program.argv[0]}: cannot be started: {error.strerror}") from error

    def fileno(self) -> int:
        """A descriptor that is readable when the successor has something to say, or is gone."""
        return self._channel.fileno()

    def wait_s(self) -> float:
        """Return how long nothing has to be done."""
        due = self._next if self.state is State.WAITING else self._until
        return max(0.0, due - time.monotonic())

    def on_message(self) -> None:
        """Hear the successor out."""
        try:
            said = self._channel.expect("prepared", 0)
            if self.state is not State.PREPARING:
                raise ChannelError("it says twice that it is ready")
            # Whom we name the daemon, or kill, is who the kernel says that it is.
            self._pid = self._channel.sender
            self._pidfd = os.pidfd_open(self._pid)
            if said.get("pid") != self._pid:
                raise ChannelError(f"process {self._pid} says that it is {said.get('pid')}")
            version = one_line(str(said.get("version")))
        except (ChannelError, OSError) as error:
            self._fail(self._ended_early() or one_line(str(error)))
            return
        log.info("upgrade: version %s is ready to take over", version)
        self.result["ready"] = version
        if self._rehearse:
            self._end()
            return
        self.state = State.WAITING
        self._until = time.monotonic() + PATIENCE_S
        self._next = 0.0

    def look(self) -> None:
        """Do what is due. Does not return when the successor has taken over."""
        now = time.monotonic()
        if self.state is State.WAITING and now >= self._next:
            self._next = now + RETRY_S
            self._exchange()
        if self.state is not State.ENDED and now > self._until:
            waited = (
                "it was not ready in time"
                if self.state is State.PREPARING
                else "calls of containers do not end"
            )
            self._fail(f"{waited}; try again, or: cgpu upgrade --cold when no sliced container runs")

    def abandon(self) -> None:
        """The daemon stops for another reason."""
        if self.state is not State.ENDED:
            self._fail("cgpud stops")

    def close(self) -> None:
        """Hang up."""
        self._channel.close()

    # --- the exchange ---

    def _exchange(self) -> None:
        estate = self._estate
        since = time.monotonic()
        if not estate.is_quiet() or not estate.gate.shut(STEP_MS / 1000):
            return
        with urgent():
            served = self._hand_over(since)
            if served is None:
                estate.engine.resume()
                estate.gate.open()
        if served is not None:
            self._pass_on(served)

    def _hand_over(self, since: float) -> dict[str, Any] | None:
        """Return what another process says that is the daemon now and serves; None: we go on."""
        try:
            if not self._pause(since):
                return None
            self._give(since)
            self._channel.expect("ready", TAKE_S)
            # From here on it would be the successor who is to be told.
            if self._estate.must_stop():
                raise CgpuError("cgpud stops")
        except (CgpuError, OSError) as error:
            self._fail(one_line(str(error)))
            return None
        if not self._appoint():
            return None
        try:
            return self._channel.expect("serving", SERVE_S)
        except ChannelError as error:
            self._give_way(error)

    def _pause(self, since: float) -> bool:
        while not self._estate.engine.pause(STEP_MS):
            # A worker may wait for what only we can tell it.
            self._estate.events()
            if time.monotonic() - since > PAUSE_MS / 1000:
                return False
        limits = self._estate.limits
        return limits is None or limits.is_idle(STEP_MS / 1000)

    def _give(self, since: float) -> None:
        estate = self._estate
        # A keeper of an earlier version has given no lock.
        things = {name: fd for name, fd in estate.sockets.items() if fd >= 0}
        if estate.engine.files_fd >= 0:
            things["files"] = estate.engine.files_fd
        for serial, name in estate.listeners.names().items():
            fd = estate.engine.listener_fd(serial)
            if fd >= 0:
                things[name] = fd
        names, sums = list(things), estate.engine.sums()
        for at in range(0, len(names), MAX_FDS):
            part = names[at : at + MAX_FDS]
            more = at + MAX_FDS < len(names)
            message: dict[str, Any] = {"say": "take", "names": part, "more": more}
            if not more:
                limits = None if estate.limits is None else estate.limits.legacy()
                message |= {"since": since, "sums": sums, "limits": limits}
            self._channel.send(message, [things[name] for name in part])

    def _appoint(self) -> bool:
        """Say that the successor is the daemon: first to who would start another one. False: it is not."""
        try:
            program = f"{PROGRAM}={self._program.text()}"
            self._estate.notify.send(f"MAINPID={self._pid}\n{program}")
        except OSError as error:
            # Nobody would keep its state, or start another one.
            untold = f"systemd cannot be told of it: {error.strerror}; try again"
            self._fail(untold if self._estate.managed else NO_KEEPER)
            return False
        try:
            self._channel.send({"say": "commit"})
        except ChannelError as error:
            self._give_way(error)
        return True

    def _pass_on(self, served: dict[str, Any]) -> NoReturn:
        """End, when nobody needs our tree any more."""
        estate = self._estate
        log.info("upgrade: process %d goes on; calls waited %s ms", self._pid, served.get("pause_ms", "?"))
        if estate.must_stop():
            # We were told, as we were the daemon.
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGTERM)
        elsewhere = ElsewhereFs(estate.tree_path)
        estate.gate.open(elsewhere)
        begun = time.monotonic()
        time.sleep(ARRIVE_S)
        while estate.tree.open_files() + elsewhere.open_files() and time.monotonic() < begun + LINGER_S:
            time.sleep(0.01)
        logging.shutdown()
        # What an orderly end takes away is the successor's by now.
        os._exit(0)

    def _give_way(self, error: ChannelError) -> NoReturn:
        """The successor is the daemon and does not serve: its keeper starts another, as after a death."""
        log.error("upgrade: the successor did not begin to serve: %s; cgpud is started anew", error)
        self._kill()
        logging.shutdown()
        os._exit(1)

    def _fail(self, why: str) -> None:
        self.result["why"] = why
        log.error("upgrade: version %s goes on: %s", __version__, why)
        self._end()

    def _end(self) -> None:
        self.state = State.ENDED
        self._kill()
        mounts.remove(str(self._estate.arguments.places.next_tree))

    def _kill(self) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            os.close(self._pidfd)
        self._pidfd = -1
        # Also one that has not said who it is, and what it has started. The group's number is nobody else's
        # until its first process has been waited for.
        if self._started.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._started.pid, signal.SIGKILL)
            self._started.wait()

    def _ended_early(self) -> str:
        until = time.monotonic() + ENDING_S
        look = os.WEXITED | os.WNOWAIT | os.WNOHANG
        while (ended := os.waitid(os.P_PID, self._started.pid, look)) is None:
            if time.monotonic() > until:
                return ""
            time.sleep(0.01)
        if (code := ended.si_status) == 0:
            return ""
        where = (
            ""
            if self._estate.arguments.foreground
            else f"; its messages: {self._estate.arguments.places.log}"
        )
        return f"{self._program.argv[0]}: ended with status {code} before it was ready{where}"
