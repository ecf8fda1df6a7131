# SPDX-License-Identifier: Apache-2.0
"""The daemon itself: one thread that waits for signals, sockets and the engine's messages."""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import signal
import socket
from typing import TYPE_CHECKING, Any

from cgpu import __version__, paths, unix_socket
from cgpu.errors import CgpuError
from cgpu.kmod.daemon import log as daemon_log
from cgpu.kmod.daemon import stranded
from cgpu.kmod.daemon.arguments import Arguments, check_change, check_module, command_line, read_config
from cgpu.kmod.daemon.commands import Commands
from cgpu.kmod.daemon.control import ControlSocket, Handler
from cgpu.kmod.daemon.engine_lines import EngineLines
from cgpu.kmod.daemon.listeners.listener import Listeners, ListenerSocket
from cgpu.kmod.daemon.manage import cards
from cgpu.kmod.daemon.published import note_command, publish, put_in_force, read_in_force, withdraw
from cgpu.kmod.daemon.simulate import Simulator
from cgpu.kmod.daemon.store.keeper import PROGRAM
from cgpu.kmod.daemon.store.stored import FILES, Stored
from cgpu.kmod.daemon.take_up import take_up_engine
from cgpu.kmod.daemon.tree.connection import send_on
from cgpu.kmod.daemon.tree.tree_fs import SOCKET, TreeFs, TreeMount
from cgpu.kmod.daemon.upgrade import in_place
from cgpu.kmod.daemon.upgrade.real_time import give_real_time_back
from cgpu.kmod.daemon.upgrade.upgrades import Upgrades
from cgpu.kmod.daemon.watch import Watch
from cgpu.kmod.daemon.witness.witness import Witness
from cgpu.process_identity import living_start_time

if TYPE_CHECKING:
    from cgpu.config.effective import Effective
    from cgpu.kmod.daemon.store.notify_socket import NotifySocket

log = logging.getLogger(__name__)

TICK_S = 1.0
WITNESS_S = 10.0  # until the driver's pages are watched, before the first container may start
# Descriptors that a program leaves to the next one in the same process, besides those that are stored.
SOCKETS = ("seccomp", "control")
COVERED = "tree"


class Service:
    """One daemon, from start to stop."""

    def __init__(
        self,
        arguments: Arguments,
        notify: NotifySocket,
        handed: list[tuple[str, int]],
        before: in_place.Before | None = None,
    ) -> None:
        """handed: descriptors of the daemon before this one, by name. This one owns them.

        before: the program before this one in this process, if one was.
        """
        self._arguments = arguments
        self._notify = notify
        self._stored = Stored(notify, handed)
        self._places = arguments.places
        self._selector = selectors.DefaultSelector()
        self._stopping = False
        self._force = False
        self.stuck = False  # the engine, or its witness, has threads that do not end
        self._idle = not handed  # no container counts on us: nothing has to stay behind
        self._before = before
        self._cleanup = contextlib.ExitStack()

    def run(self) -> None:
        """Serve until asked to stop. Raises CgpuError when it cannot start."""
        with self._cleanup:
            # Last: until then no other daemon starts.
            self._cleanup.callback(self._places.started.unlink, missing_ok=True)
            self._signals()
            self._config = self._load()
            self._open_engine()
            self._witness.start(WITNESS_S if self._idle else 0)
            self._open_tree()
            self._engine.start()
            if self._before is not None:
                self._upgrades.follow(self._before)
            self._publish()
            self._open_sockets()
            self._notify.send("READY=1")
            self._say_ready()
            self._serve()

    def _say_ready(self) -> None:
        has = cards(self._commands.status({}))
        log.info("ready: tree %s, socket %s, %s", self._tree_path, self._places.seccomp, has)
        if self._before is None:
            self._lines.record("ready", {"message": f"cgpud {__version__}, {has}"})
            self._record_stranded()
            return
        give_real_time_back()
        # The file may say more than what was in force.
        with contextlib.suppress(CgpuError):
            self._reload()
        before, upgrade = self._before, self._upgrades.last or {}
        # From now on the keeper starts this program.
        self._notify.send(f"STATUS=version {__version__}\n{PROGRAM}={before.program.text()}")
        follows = f"cgpud {__version__} goes on for version {before.version}"
        self._lines.record("upgraded", {"message": follows})
        log.info(
            "version %s goes on for version %s with %d listeners; calls waited %s ms",
            __version__,
            before.version,
            len(self._listeners),
            upgrade.get("pause_ms"),
        )

    def _record_stranded(self) -> None:
        simulated = self._arguments.simulate is not None
        server = Simulator(self._places.sim).running() if simulated else None
        registered = {one.id: one for one in self._engine.containers()}
        with contextlib.suppress(CgpuError, OSError):
            for container, message in stranded.find(self._places.events, registered, server):
                log.warning("container %s: %s", container, message)
                self._lines.record("stranded", {"id": container, "message": message})

    def _serve(self) -> None:
        self._loop()
        self._notify.send("STOPPING=1")
        self._end()
        self._lines.handle()
        self._lines.record("stopped", {"message": f"cgpud {__version__}"})

    # --- start ---

    def _signals(self) -> None:
        self._signal_reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        in_place.take_signals()
        self._selector.register(self._signal_reader, selectors.EVENT_READ, self._on_signal)

    def _load(self) -> Effective:
        in_force = read_in_force(self._places) if self._before is not None else None
        config = in_force or read_config(self._arguments)
        daemon_log.follow(config)
        return config

    def _open_engine(self) -> None:
        self._left = {name: self._stored.take(name) for name in (*SOCKETS, COVERED)}
        self._lines = EngineLines(self._places.events, self._on_gone)
        self._selector.register(self._lines, selectors.EVENT_READ, self._lines.handle)
        self._cleanup.callback(self._end_simulator)
        self._engine = take_up_engine(
            self._arguments, self._config, self._stored, self._notify, self._before, self._lines.writer
        )
        self._cleanup.callback(self._close_engine)
        self._listeners = Listeners(self._engine, self._notify, lambda: self._config.shared_node)
        self._cleanup.callback(self._listeners.filters.await_inspections)
        self._listeners.restore_all(self._stored.take_rest())
        simulated = self._arguments.simulate is not None
        self._witness = Witness(self._engine, lambda: self._config, self._lines.record, simulated=simulated)
        self._cleanup.callback(self._close_witness)
        self._watch = Watch(self._engine, self._listeners, self._notify, self._places)

    def _on_gone(self, serial: int) -> None:
        self._listeners.gone(serial)

    def _close_engine(self) -> None:
        self._idle = not self._engine.is_in_use()
        self.stuck = self.stuck or not self._engine.close()

    def _close_witness(self) -> None:
        self.stuck = not self._witness.close()

    def _end_simulator(self) -> None:
        if self._idle and self._arguments.simulate is not None:
            Simulator(self._places.sim).stop()

    def _open_tree(self) -> None:
        check_module()
        self._tree_path = self._config.tree or paths.TREE_DAEMON
        covered = self._left[COVERED]
        self._tree = TreeMount(
            TreeFs(self._engine, self._witness.registered), self._tree_path, str(self._places.next_tree)
        )
        self._cleanup.callback(self._tree.stop)
        self._tree.start()
        self._tree.appear(covers=covered >= 0)
        # A runtime that waits at the covered tree finds the socket in this one.
        self._seccomp = unix_socket.listen(self._tree_path + SOCKET)
        if covered >= 0:
            send_on(covered)
        self._upgrades = Upgrades(
            self._arguments,
            self._engine,
            self._notify.address or "",
            self._may_upgrade,
            self._finish,
        )
        parts = (self._engine, self._watch, self._upgrades)
        self._commands = Commands(self._arguments, self._tree_path, *parts)

    def _open_sockets(self) -> None:
        taken = {name: socket.socket(fileno=fd) for name in SOCKETS if (fd := self._left[name]) >= 0}
        path = str(self._places.seccomp)
        self._listener_socket = ListenerSocket(path, self._listeners, self._seccomp, taken.get("seccomp"))
        self._cleanup.callback(self._listener_socket.close)
        commands: dict[str, Handler] = {
            "status": self._commands.status,
            "stop": self._on_stop,
            "reload": self._on_reload,
            "upgrade": self._commands.upgrade,
            "state": self._commands.state,
            "tree": self._commands.tree,
        }
        self._control = control = ControlSocket(str(self._places.control), commands, taken.get("control"))
        self._cleanup.callback(control.close)
        self._selector.register(self._listener_socket, selectors.EVENT_READ, self._listener_socket.handle)
        self._selector.register(control, selectors.EVENT_READ, control.handle)

    def _publish(self) -> None:
        put_in_force(self._config, self._places)
        self._cleanup.callback(withdraw, self._places)
        publish(self._engine, self._places)
        by_hand = None if self._watch.managed else command_line(self._arguments)
        note_command(by_hand, self._places)

    # --- run ---

    def _loop(self) -> None:
        while not self._stopping:
            for key, _ in self._selector.select(self._upgrades.wait_s(TICK_S)):
                key.data()
            self._listener_socket.expire()
            self._upgrades.step()
            self._watch.check()
            if self._tree.is_lost() and not self._stopping:
                raise CgpuError(f"{self._tree_path}: the tree was unmounted by someone else; start over")

    def _on_signal(self) -> bool:
        numbers = b""
        with contextlib.suppress(BlockingIOError):
            numbers = os.read(self._signal_reader, 64)
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self._stopping = True
        if signal.SIGHUP in numbers:
            with contextlib.suppress(CgpuError):
                self._reload()
        return self._stopping

    def _reload(self) -> None:
        try:
            config = read_config(self._arguments)
            check_change(self._config, config)
            self._engine.apply(config)
            put_in_force(config, self._places)
        except OSError as error:
            raise CgpuError(f"the settings are refused: {error.strerror}") from error
        except CgpuError as error:
            log.error("not reloaded: %s", error)
            raise
        self._config = config
        # Last, as for all that a refused configuration says: it has no effect.
        daemon_log.follow(config)
        self._witness.configure()
        log.info("configuration reloaded")

    def _on_reload(self, _: dict[str, Any]) -> dict[str, Any]:
        self._reload()
        return {}

    def _on_stop(self, request: dict[str, Any]) -> dict[str, Any]:
        left = self._commands.stop(request)
        self._force = request.get("force") is True
        self._stopping = True
        return left

    def _may_upgrade(self) -> bool:
        return self._listener_socket.is_idle()

    def _finish(self) -> dict[str, int] | None:
        """Return the descriptors that the next program needs; None: a signal wants this one to end."""
        if self._on_signal():
            return None
        self._lines.handle()
        found = {
            "seccomp": self._listener_socket.sock.fileno(),
            "control": self._control.fileno(),
            self._stored.state_name: self._engine.state_fd,
            **self._listeners.descriptors(),
        }
        if self._engine.files_fd >= 0:
            found[FILES] = self._engine.files_fd
        # The tree comes last: what it is asked waits from here on.
        return {**found, COVERED: self._tree.leave()}

    # --- stop ---

    def _end(self) -> None:
        containers = list(self._engine.containers())
        if self._force:
            for container in containers:
                self._engine.remove(container)
                self._lines.handle()
                if living_start_time(container.pid):
                    self._lines.record("stranded", {"id": container.id, "message": stranded.FORCED})
            containers = []
        reserved = 0 if self._force else sum(1 for _ in self._engine.reservations())
        if containers or reserved:
            self._stored.mark_reservations(self._engine, waiting=reserved > 0)
            log.info(
                "stopping; %d containers and %d reservations wait for the next start",
                len(containers),
                reserved,
            )
            return
        # There is nothing to hand over: remove everything.
        self._listeners.discard_all()
        self._stored.discard()
        self._places.driver.unlink(missing_ok=True)
        log.info("stopped")
