# SPDX-License-Identifier: Apache-2.0
"""A daemon is followed by another one while containers run: the side of the one that runs.

The successor prepares while the predecessor serves. Then the predecessor stops between two calls and hands
its state over. Until it has appointed the successor, a failure leaves the predecessor as it was; from then on
it only passes on the operations that still come to its tree.
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
from cgpu.kmod.daemon.tree.handover import SuccessorFs
from cgpu.kmod.daemon.upgrade.channel import MAX_FDS, PROTOCOL, Channel, ChannelError
from cgpu.kmod.daemon.upgrade.real_time import real_time_priority

if TYPE_CHECKING:
    from cgpu.kmod.daemon.engine import Engine
    from cgpu.kmod.daemon.listeners.listener import Listeners
    from cgpu.kmod.daemon.program import Program
    from cgpu.kmod.daemon.store.notify_socket import NotifySocket
    from cgpu.kmod.daemon.tree.handover import TreeSwitch
    from cgpu.kmod.daemon.tree.tree_fs import TreeFs

log = logging.getLogger(__name__)

PREPARE_S = 120.0  # a driver that is not in the table is checked in this time
TAKE_S = 2.0  # containers wait meanwhile
SERVE_S = 10.0
PAUSE_MS = 60  # for calls that are under way
STEP_MS = 10
PATIENCE_S = 15.0  # for a moment in which no call takes longer than that
RETRY_S = 0.25
LINGER_S = 10.0  # for processes that have an entry of this tree open
ENDING_S = 1.0
# Operations that have found this tree can be long on their way, on a machine with much to do.
ARRIVE_S = 1.0
NO_KEEPER = (
    "the keeper of cgpud has died, so no other cgpud can hold what containers need; "
    "when no sliced container runs: cgpud --stop, then cgpud"
)


class Progress(Enum):
    """Progress of an upgrade."""

    PREPARING = "the successor prepares"
    WAITING = "for a moment without long calls"
    ENDED = "nothing has changed"


@dataclass(frozen=True, slots=True)
class HandoverState:
    """Parts of a daemon that the next one takes over."""

    arguments: Arguments
    notify: NotifySocket
    engine: Engine
    listeners: Listeners
    tree: TreeFs
    switch: TreeSwitch
    tree_path: str
    state_name: str  # in the store
    sockets: dict[str, int]  # descriptors by name, and the lock
    managed: bool  # by systemd
    is_quiet: Callable[[], bool]  # nothing has come in half
    must_stop: Callable[[], bool]  # the daemon was asked to end


class Handover:
    """One attempt of an upgrade. Ask `state` and `result`; it does not return from a success."""

    def __init__(self, handed: HandoverState, program: Program, number: str, *, rehearse: bool) -> None:
        """Start the successor. number: of this attempt. rehearse: only to see it ready. Raises CgpuError."""
        keeper = None if handed.managed else handed.notify.address
        if keeper is not None and not is_heard(Path(keeper)):
            raise CgpuError(NO_KEEPER)
        self.progress = Progress.PREPARING
        self.result: dict[str, Any] = {"number": number, "done": False}
        self._rehearse = rehearse
        self._handed = handed
        self._program = program
        self._pid = 0
        self._pidfd = -1
        self._until = time.monotonic() + PREPARE_S
        self._next = 0.0
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        self._channel = Channel(ours)
        hello = {"say": "hello", "protocol": PROTOCOL, "version": __version__, "number": number}
        about = {
            "state_name": handed.state_name,
            "tree": handed.tree_path,
            "managed": handed.managed,
            "driver": handed.engine.status()["driver"],
            "containers": sum(1 for _ in handed.engine.containers()),
        }
        with theirs:
            self._channel.send({**hello, **about}, [handed.engine.state_fd])
            self._started = self._spawn(theirs)
        log.info("upgrade: %s takes over from version %s", program.argv[0], __version__)

    def _spawn(self, theirs: socket.socket) -> subprocess.Popen[bytes]:
        arguments = self._handed.arguments
        number = str(theirs.fileno())
        command = self._program.command("--worker", *worker_arguments(arguments), "--successor", number)
        environment = self._program.environment()
        if self._handed.notify.address is not None:
            environment["NOTIFY_SOCKET"] = self._handed.notify.address.replace("\0", "@", 1)
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
        due = self._next if self.progress is Progress.WAITING else self._until
        return max(0.0, due - time.monotonic())

    def on_message(self) -> None:
        """Read a message of the successor."""
        try:
            said = self._channel.expect("prepared", 0)
            if self.progress is not Progress.PREPARING:
                raise ChannelError("it says twice that it is ready")
            # The process that is appointed, or killed, is the one that the kernel names.
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
        self.progress = Progress.WAITING
        self._until = time.monotonic() + PATIENCE_S
        self._next = 0.0

    def step(self) -> None:
        """Carry out steps that are due. Does not return when the successor has taken over."""
        now = time.monotonic()
        if self.progress is Progress.WAITING and now >= self._next:
            self._next = now + RETRY_S
            self._try_hand_over()
        if self.progress is not Progress.ENDED and now > self._until:
            waited = (
                "it was not ready in time"
                if self.progress is Progress.PREPARING
                else "calls of containers do not end"
            )
            self._fail(f"{waited}; try again, or: cgpu upgrade --cold when no sliced container runs")

    def abandon(self) -> None:
        """The daemon stops for another reason."""
        if self.progress is not Progress.ENDED:
            self._fail("cgpud stops")

    def close(self) -> None:
        """Hang up."""
        self._channel.close()

    # --- the handover ---

    def _try_hand_over(self) -> None:
        handed = self._handed
        since = time.monotonic()
        if not handed.is_quiet() or not handed.switch.suspend(STEP_MS / 1000):
            return
        with real_time_priority():
            served = self._hand_over(since)
            if served is None:
                handed.engine.resume()
                handed.switch.resume()
        if served is not None:
            self._pass_on(served)

    def _hand_over(self, since: float) -> dict[str, Any] | None:
        """Return the successor's message that it serves; None: this daemon goes on."""
        try:
            if not self._pause(since):
                return None
            self._send_state(since)
            self._channel.expect("ready", TAKE_S)
            # From here on the successor would have to be asked.
            if self._handed.must_stop():
                raise CgpuError("cgpud stops")
        except (CgpuError, OSError) as error:
            self._fail(one_line(str(error)))
            return None
        if not self._appoint():
            return None
        try:
            return self._channel.expect("serving", SERVE_S)
        except ChannelError as error:
            self._yield_to_restart(error)

    def _pause(self, since: float) -> bool:
        while not self._handed.engine.pause(STEP_MS):
            if time.monotonic() - since > PAUSE_MS / 1000:
                return False
        return True

    def _send_state(self, since: float) -> None:
        handed = self._handed
        things = dict(handed.sockets)
        if handed.engine.files_fd >= 0:
            things["files"] = handed.engine.files_fd
        for serial, name in handed.listeners.names().items():
            fd = handed.engine.listener_fd(serial)
            if fd >= 0:
                things[name] = fd
        names, sums = list(things), handed.engine.sums()
        for at in range(0, len(names), MAX_FDS):
            part = names[at : at + MAX_FDS]
            more = at + MAX_FDS < len(names)
            message: dict[str, Any] = {"say": "take", "names": part, "more": more}
            if not more:
                message |= {"since": since, "sums": sums}
            self._channel.send(message, [things[name] for name in part])

    def _appoint(self) -> bool:
        """Say that the successor is the daemon, first to the service manager. False: it is not."""
        try:
            program = f"{PROGRAM}={self._program.text()}"
            self._handed.notify.send(f"MAINPID={self._pid}\n{program}")
        except OSError as error:
            # No process would keep its state, or start another daemon.
            unnotified = f"systemd cannot be told of it: {error.strerror}; try again"
            self._fail(unnotified if self._handed.managed else NO_KEEPER)
            return False
        try:
            self._channel.send({"say": "commit"})
        except ChannelError as error:
            self._yield_to_restart(error)
        return True

    def _pass_on(self, served: dict[str, Any]) -> NoReturn:
        """End when no process uses this tree any more."""
        handed = self._handed
        log.info("upgrade: process %d goes on; calls waited %s ms", self._pid, served.get("pause_ms", "?"))
        if handed.must_stop():
            # The request to end came to this process, which was the daemon.
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGTERM)
        successor_tree = SuccessorFs(handed.tree_path)
        handed.switch.resume(successor_tree)
        begun = time.monotonic()
        while time.monotonic() < begun + LINGER_S and (
            handed.tree.open_files() + successor_tree.open_files() + handed.switch.open_directories
            or handed.switch.quiet_s() < ARRIVE_S
        ):
            time.sleep(0.01)
        logging.shutdown()
        # The successor owns by now all that an orderly end would remove.
        os._exit(0)

    def _yield_to_restart(self, error: ChannelError) -> NoReturn:
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
        self.progress = Progress.ENDED
        self._kill()
        mounts.remove(str(self._handed.arguments.places.next_tree))

    def _kill(self) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
            os.close(self._pidfd)
        self._pidfd = -1
        # Kill also a successor that has not introduced itself, and its children. The group's number is not
        # reused before its first process has been waited for.
        if self._started.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._started.pid, signal.SIGKILL)
            self._started.wait()

    def _ended_early(self) -> str:
        until = time.monotonic() + ENDING_S
        options = os.WEXITED | os.WNOWAIT | os.WNOHANG
        while (ended := os.waitid(os.P_PID, self._started.pid, options)) is None:
            if time.monotonic() > until:
                return ""
            time.sleep(0.01)
        if (code := ended.si_status) == 0:
            return ""
        where = (
            ""
            if self._handed.arguments.foreground
            else f"; its messages: {self._handed.arguments.places.log}"
        )
        return f"{self._program.argv[0]}: ended with status {code} before it was ready{where}"
