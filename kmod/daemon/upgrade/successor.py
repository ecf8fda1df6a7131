# SPDX-License-Identifier: Apache-2.0
"""A daemon that follows another one while containers run: the side of the successor."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import time
from typing import TYPE_CHECKING, Any

from cgpu import __version__, paths
from cgpu.errors import CgpuError, one_line
from cgpu.kmod.daemon import driver_check
from cgpu.kmod.daemon.arguments import check_module, settings_of
from cgpu.kmod.daemon.engine import Engine, StaleStateError
from cgpu.kmod.daemon.processes import process_identity
from cgpu.kmod.daemon.processes.lock import sign
from cgpu.kmod.daemon.program import allow_all_descriptors
from cgpu.kmod.daemon.service import Service
from cgpu.kmod.daemon.store.stored import FILES, STATES, Stored
from cgpu.kmod.daemon.upgrade.channel import PROTOCOL, Channel, ChannelError
from cgpu.kmod.daemon.upgrade.real_time import real_time_priority
from cgpu.replace import replace_text

if TYPE_CHECKING:
    from cgpu.kmod.daemon.arguments import Arguments
    from cgpu.kmod.daemon.store.notify_socket import NotifySocket

log = logging.getLogger(__name__)

HELLO_S = 10.0
WAIT_S = 600.0  # for the predecessor to find a moment without calls
COMMIT_S = 10.0
SOCKETS = ("seccomp", "control")
ROOM_BYTES = 1 << 16  # for any of the files that a daemon writes when it starts
LOCK = "lock"


class Successor(Service):
    """A daemon that prepares beside another one, and then takes its place."""

    def __init__(self, arguments: Arguments, notify: NotifySocket, channel: Channel) -> None:
        """channel: to the predecessor."""
        super().__init__(arguments, notify, [])
        self._channel = channel
        self._owns_ledger = False
        self._files_are_new = False
        self._taken: dict[str, socket.socket] = {}
        self._idle = False  # until it is the daemon, nothing is its own to remove

    def run(self) -> None:
        """Take over, and serve until asked to stop. Raises CgpuError."""
        with self._cleanup:
            try:
                hello, before = self._greet()
                self._prepare(hello, before)
                self._channel.send({"say": "prepared", "pid": os.getpid(), "version": __version__})
                with real_time_priority():
                    since = self._take()
                    self._channel.send({"say": "ready"})
                    self._channel.expect("commit", COMMIT_S)
                    self._replace_state(hello, before)
                    pause_ms = self._go_on(since)
            except CgpuError as error:
                with contextlib.suppress(ChannelError):
                    self._channel.send({"say": "refused", "why": str(error)})
                raise
            self._begin(hello, pause_ms)
            self._serve()

    # --- while the predecessor serves ---

    def _greet(self) -> tuple[dict[str, Any], int]:
        hello, fds = self._channel.receive(HELLO_S)
        if hello.get("protocol") != PROTOCOL or len(fds) != 1 or hello.get("state_name") not in STATES:
            raise CgpuError(
                f"version {hello.get('version')} hands over by another protocol than version {__version__}; "
                "when no sliced container runs: cgpu upgrade --cold"
            )
        return hello, fds[0]

    def _prepare(self, hello: dict[str, Any], before: int) -> None:
        self._signals()
        self._config = self._load()
        self._tree_path = self._config.tree or paths.TREE_DAEMON
        if self._tree_path != hello["tree"]:
            raise CgpuError(
                f"tree: {self._tree_path}: the daemon that runs has {hello['tree']}; "
                f"it changes only with a restart: {paths.daemon_command('restart')}"
            )
        check_module()
        root = self._driver_root()
        checked = (
            driver_check.check(root, self._places.driver, taken_up=True)
            if self._config.allow_unknown_driver
            else None
        )
        try:
            self._engine = Engine(self._options(root, before, -1, succeeds=True))
        except StaleStateError as error:
            raise CgpuError(
                f"version {__version__} cannot read the state of version {hello['version']}; "
                "when no sliced container runs: cgpu upgrade --cold"
            ) from error
        self._cleanup.callback(self._close_engine)
        self._check_driver_is(str(hello["driver"]))
        driver_check.expect(self._engine.status(), checked, containers=int(hello["containers"]))
        self._see_room()
        self._switch.suspend(0)
        self._mount_tree(str(self._places.next_tree))

    def _check_driver_is(self, driver: str) -> None:
        found = self._engine.status()["driver"]
        if found != driver:
            raise CgpuError(
                f"driver {found}: the daemon that runs speaks to driver {driver}; stop it and start anew"
            )

    def _see_room(self) -> None:
        for path in (self._places.effective, self._places.cdi, *self._places.daemon):
            trial = path.with_name(f"{path.name}.room")
            try:
                replace_text(trial, " " * ROOM_BYTES)
            except OSError as error:
                raise CgpuError(
                    f"{path.parent}: {error.strerror}: a daemon writes some files there when it starts; "
                    "make room, then: cgpu upgrade"
                ) from error
            finally:
                trial.unlink(missing_ok=True)

    # --- while no daemon serves ---

    def _take(self) -> float:
        message, things = self._receive()
        since, sums = float(message["since"]), message["sums"]
        if missing := [name for name in (*SOCKETS, LOCK) if name not in things]:
            raise CgpuError(f"what is handed over lacks {', '.join(missing)}")
        files = things.pop(FILES, -1)
        self._engine.take_over(files, settings_of(self._config))
        self._owns_ledger = True
        found = self._engine.sums()
        if found != sums:
            raise CgpuError(f"the ledger has {found} after it was taken over, and had {sums} before")
        self._files_are_new = self._engine.files_fd != files
        self._lock = things.pop(LOCK)
        self._taken = {name: socket.socket(fileno=things.pop(name)) for name in SOCKETS}
        self._stored = Stored(self._notify, list(things.items()))
        self._restore_listeners()
        return since

    def _receive(self) -> tuple[dict[str, Any], dict[str, int]]:
        """Return the last of the messages by which all is handed over, and the descriptors by name."""
        things: dict[str, int] = {}
        message: dict[str, Any] = {}
        more, wait_s = True, WAIT_S
        while more:
            message, fds = self._channel.receive(wait_s)
            names = message.get("names")
            more, wait_s = bool(message.get("more")), COMMIT_S
            if message.get("say") != "take" or not isinstance(names, list) or len(names) != len(fds):
                raise CgpuError(f"what is handed over is not understood: {message.get('say')}")
            if not more and not {"since", "sums"} <= message.keys():
                raise CgpuError("what is handed over comes without its sums")
            things.update(zip(names, fds, strict=True))
        return message, things

    # --- from here on this is the daemon ---

    def _replace_state(self, hello: dict[str, Any], before: int) -> None:
        self._stored.state_name = hello["state_name"]
        self._stored.replace_state(self._engine, before)
        os.close(before)
        if self._files_are_new:
            self._stored.keep_files(self._engine)

    def _go_on(self, since: float) -> float:
        """Answer calls; return for how long none was, in milliseconds."""
        self._engine.start()
        pause_ms = round((time.monotonic() - since) * 1000, 1)
        self._switch.resume()
        return pause_ms

    def _begin(self, hello: dict[str, Any], pause_ms: float) -> None:
        self._tree.appear()
        self._upgrade = {
            "number": hello["number"],
            "done": True,
            "from": hello["version"],
            "pause_ms": pause_ms,
        }
        self._open_sockets(self._taken)
        try:
            self._publish()
            if hello["managed"]:  # else its keeper holds the lock, and has signed it
                sign(self._lock, process_identity.own())
        except (CgpuError, OSError) as error:
            # Containers are served already. The files are those of the predecessor.
            log.error("upgrade: %s", one_line(str(error)))
        with contextlib.suppress(OSError):
            self._notify.send(f"READY=1\nSTATUS=version {__version__}")
        # The predecessor may be dead, and is not needed any more.
        with contextlib.suppress(ChannelError):
            self._channel.send({"say": "serving", "pause_ms": pause_ms})
        self._channel.close()
        # The file may have changed since it was read, and the request to reload have gone to the predecessor.
        with contextlib.suppress(CgpuError):
            self._reload()
        self._record("upgraded", {"message": f"cgpud {__version__} goes on for version {hello['version']}"})
        log.info(
            "version %s goes on for version %s with %d listeners; calls waited %.1f ms",
            __version__,
            hello["version"],
            len(self._listeners),
            pause_ms,
        )

    def _close_engine(self) -> None:
        if self._owns_ledger and self._upgrade is not None:
            super()._close_engine()
        else:
            self._engine.close()


def run_successor(arguments: Arguments, notify: NotifySocket, fd: int) -> int:
    """Be the daemon after the one at the other end of a socket. Returns the exit status."""
    if os.fork() > 0:
        # Its parent is then the service manager.
        os._exit(0)
    allow_all_descriptors()
    channel = Channel(socket.socket(fileno=fd))
    service = Successor(arguments, notify, channel)
    code = 0
    try:
        service.run()
    except (CgpuError, OSError) as error:
        log.error("upgrade: version %s does not take over: %s", __version__, one_line(str(error)))
        code = 1
    if service.stuck:
        logging.shutdown()
        os._exit(code)
    return code
