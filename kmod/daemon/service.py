# SPDX-License-Identifier: Apache-2.0
"""The daemon itself: one thread that waits for signals, sockets and the engine's messages."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import selectors
import signal
import socket
import time
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from cgpu import __version__, cdi_devices, paths, unix_socket
from cgpu.check_driver.run import timeout_s
from cgpu.config import effective, refused
from cgpu.errors import CgpuError
from cgpu.events.append import append
from cgpu.events.event import fields_of_words
from cgpu.kmod.daemon import cdi, driver_check
from cgpu.kmod.daemon import log as daemon_log
from cgpu.kmod.daemon import program as programs
from cgpu.kmod.daemon.arguments import (
    Arguments,
    check_change,
    check_module,
    read_config,
    worker_arguments,
)
from cgpu.kmod.daemon.control import PASSED, ControlSocket, Handler
from cgpu.kmod.daemon.engine import Engine, StaleStateError
from cgpu.kmod.daemon.listeners.listener import Listeners, ListenerSocket
from cgpu.kmod.daemon.manage import cards
from cgpu.kmod.daemon.simulate import Simulator, driver_root
from cgpu.kmod.daemon.store.keeper import PROGRAM
from cgpu.kmod.daemon.store.notify_socket import RESERVED, is_heard
from cgpu.kmod.daemon.store.stored import FILES, Stored
from cgpu.kmod.daemon.tree import mounts
from cgpu.kmod.daemon.tree.connection import send_on
from cgpu.kmod.daemon.tree.tree_fs import SOCKET, TreeFs, TreeMount
from cgpu.kmod.daemon.upgrade import in_place
from cgpu.kmod.daemon.upgrade.attempt import Attempt, Progress
from cgpu.kmod.daemon.upgrade.real_time import give_real_time_back, take_real_time
from cgpu.kmod.daemon.upgrade.rehearsal import Running
from cgpu.kmod.daemon.watch import Watch
from cgpu.replace import replace_text
from cgpu.runtime_config.oci_runtime import lowlevel

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cgpu.config.effective import Effective
    from cgpu.kmod.daemon.program import Program
    from cgpu.kmod.daemon.store.notify_socket import NotifySocket

log = logging.getLogger(__name__)

TICK_S = 1.0
START_S = 60.0  # of the steps after the driver's check
EVENT_BYTES = 1 << 16
# Descriptors that a program leaves to the next one in the same process, besides those that are stored.
SOCKETS = ("seccomp", "control")
COVERED = "tree"
PAUSE_MS = 60  # for calls that are under way
STEP_MS = 10
NO_KEEPER = (
    "the keeper of cgpud has died, so no other cgpud can hold what containers need; "
    "when no sliced container runs: cgpud --stop, then cgpud"
)
LEVELS = {3: logging.ERROR, 4: logging.WARNING, 6: logging.INFO}


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
        self.stuck = False  # the engine has threads that do not end
        self._idle = not handed  # no container counts on us: nothing has to stay behind
        self._before = before
        self._attempt: Attempt | None = None
        self._upgrade: dict[str, Any] | None = None  # how the last one went
        self._event_text = b""
        self._cleanup = contextlib.ExitStack()

    def run(self) -> None:
        """Serve until asked to stop. Raises CgpuError when it cannot start."""
        with self._cleanup:
            # Last: until then no other daemon starts.
            self._cleanup.callback(self._places.started.unlink, missing_ok=True)
            self._signals()
            self._config = self._load()
            self._open_engine()
            self._open_tree()
            self._engine.start()
            if self._before is not None:
                self._go_on(self._before)
            self._publish()
            self._open_sockets()
            self._notify.send("READY=1")
            self._say_ready()
            self._serve()

    def _say_ready(self) -> None:
        has = cards(self._on_status({}))
        log.info("ready: tree %s, socket %s, %s", self._tree_path, self._places.seccomp, has)
        if self._before is None:
            self._record("ready", {"message": f"cgpud {__version__}, {has}"})
            return
        give_real_time_back()
        # The file may say more than what was in force.
        with contextlib.suppress(CgpuError):
            self._reload()
        before, upgrade = self._before, self._upgrade or {}
        # From now on the keeper starts this program.
        self._notify.send(f"STATUS=version {__version__}\n{PROGRAM}={before.program.text()}")
        self._record("upgraded", {"message": f"cgpud {__version__} goes on for version {before.version}"})
        log.info(
            "version %s goes on for version %s with %d listeners; calls waited %s ms",
            __version__,
            before.version,
            len(self._listeners),
            upgrade.get("pause_ms"),
        )

    def _serve(self) -> None:
        self._loop()
        if self._attempt is not None:
            self._attempt.fail("cgpud stops")
        self._notify.send("STOPPING=1")
        self._end()
        self._on_events()
        self._record("stopped", {"message": f"cgpud {__version__}"})

    # --- start ---

    def _signals(self) -> None:
        self._signal_reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        in_place.take_signals()
        self._selector.register(self._signal_reader, selectors.EVENT_READ, self._on_signal)

    def _load(self) -> Effective:
        config = self._in_force() or read_config(self._arguments)
        _log_as(config)
        return config

    def _in_force(self) -> Effective | None:
        """Return what the program before this one had in force; None: there was none, or its keys differ."""
        if self._before is not None:
            with contextlib.suppress(CgpuError):
                return effective.load(str(self._places.effective))
        return None

    def _driver_root(self) -> str:
        # Cards under a running container must stay the same.
        held = self._stored.is_in_use()
        self._cleanup.callback(self._end_simulator)
        return driver_root(self._arguments.simulate, self._places.sim, may_replace=not held)

    def _event_pipe(self) -> int:
        """Make the pipe of the engine's lines, and return its write end."""
        self._events, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._selector.register(self._events, selectors.EVENT_READ, self._on_events)
        return writer

    def _open_engine(self) -> None:
        self._left = {name: self._stored.take(name) for name in (*SOCKETS, COVERED)}
        root = self._driver_root()
        state_fd = self._stored.take_state()
        checked = self._check_driver(root, taken_up=state_fd >= 0)
        marker = self._stored.take(RESERVED)
        if marker >= 0:
            os.close(marker)
        files_fd = self._stored.take(FILES)
        start = partial(
            Engine, root, self._config, event_fd=self._event_pipe(), follows=self._before is not None
        )
        fresh = state_fd < 0
        try:
            self._engine = start(state_fd=state_fd, files_fd=files_fd)
        except StaleStateError as error:
            log.error("%s; starting without it, running containers lose their GPUs", error)
            self._stored.drop()
            self._engine = start()
            fresh = True
        self._cleanup.callback(self._close_engine)
        containers = sum(1 for _ in self._engine.containers())
        driver_check.expect(self._engine.status(), checked, containers=containers)
        if fresh:
            self._stored.keep_state(self._engine)
        elif self._engine.state_fd != state_fd:
            self._stored.replace_state(self._engine)
        if fresh or self._engine.files_fd != files_fd:
            self._stored.keep_files(self._engine)
        self._restore_listeners()

    def _restore_listeners(self) -> None:
        self._listeners = Listeners(self._engine, self._notify, lambda: self._config.shared_node)
        self._cleanup.callback(self._listeners.filters.await_inspections)
        for name, fd in self._stored.take_rest():
            with contextlib.suppress(CgpuError):
                self._listeners.restore(name, fd)
        self._watch = Watch(self._engine, self._listeners, self._notify, self._places)
        if len(self._listeners):
            log.info("took up %d listeners", len(self._listeners))

    def _check_driver(self, root: str, *, taken_up: bool) -> driver_check.Checked | None:
        if not self._config.allow_unknown_driver:
            return None
        if self._before is not None:  # it has had this version check the driver
            return driver_check.Checked(self._before.driver)
        # systemd gives up on a start that takes longer than its limit, unless it is asked for more time.
        wait_s = timeout_s(root) + START_S
        self._notify.send(f"EXTEND_TIMEOUT_USEC={wait_s * 1e6:.0f}")
        return driver_check.check(root, self._places.driver, taken_up=taken_up)

    def _close_engine(self) -> None:
        self._idle = not self._engine.is_in_use()
        self.stuck = not self._engine.close()

    def _end_simulator(self) -> None:
        if self._idle and self._arguments.simulate is not None:
            Simulator(self._places.sim).stop()

    def _open_tree(self) -> None:
        check_module()
        self._tree_path = self._config.tree or paths.TREE_DAEMON
        covered = self._left[COVERED]
        self._tree = TreeMount(TreeFs(self._engine), self._tree_path, str(self._places.next_tree))
        self._cleanup.callback(self._tree.stop)
        self._tree.start()
        self._tree.appear(covers=covered >= 0)
        # A runtime that waits at the covered tree finds the socket in this one.
        self._seccomp = unix_socket.listen(self._tree_path + SOCKET)
        if covered >= 0:
            send_on(covered)

    def _open_sockets(self) -> None:
        commands: dict[str, Handler] = {
            "status": self._on_status,
            "stop": self._on_stop,
            "reload": self._on_reload,
            "upgrade": self._on_upgrade,
            "tree": self._on_tree,
        }
        taken = {name: socket.socket(fileno=fd) for name in SOCKETS if (fd := self._left[name]) >= 0}
        path = str(self._places.seccomp)
        self._listener_socket = ListenerSocket(path, self._listeners, self._seccomp, taken.get("seccomp"))
        self._cleanup.callback(self._listener_socket.close)
        self._control = control = ControlSocket(str(self._places.control), commands, taken.get("control"))
        self._cleanup.callback(control.close)
        self._selector.register(self._listener_socket, selectors.EVENT_READ, self._listener_socket.handle)
        self._selector.register(control, selectors.EVENT_READ, control.handle)

    def _publish(self) -> None:
        self._put_in_force(self._config)
        refused.forget(str(self._places.refused))
        specification = cdi.specification(list(self._engine.gpus()), list(self._engine.nodes()))
        replace_text(self._places.cdi, json.dumps(specification, indent=1) + "\n")
        self._publish_devices()
        replace_text(self._places.pid, f"{os.getpid()}\n")
        # The settings stay, so that their refusals hold while the daemon is down, too.
        for leftover in (self._places.pid, self._places.cdi, self._places.cdi_devices):
            self._cleanup.callback(leftover.unlink, missing_ok=True)

    def _put_in_force(self, config: Effective) -> None:
        """Put the configuration where hook and wrapper have it. Raises CgpuError."""
        from cgpu.config.load import write_effective  # as in read_config()

        places = self._places
        write_effective(config, places.effective)
        try:
            lowlevel.keep_links(config.low_level_runtime, str(places.low_level), str(places.low_level_plain))
        except OSError as error:
            # The wrapper then looks for the runtime at each call.
            log.warning("%s: cannot be written: %s", places.low_level, error.strerror)

    def _publish_devices(self) -> None:
        path = self._places.cdi_devices
        try:
            cdi_devices.publish(((gpu.index, gpu.uuid) for gpu in self._engine.gpus()), path)
        except OSError as error:
            # A convenience: the variables name GPUs as well.
            log.warning("%s: cannot be written: %s; --device knows no GPU by name", path, error.strerror)

    # --- run ---

    def _loop(self) -> None:
        while not self._stopping:
            wait_s = TICK_S if self._attempt is None else min(TICK_S, self._attempt.wait_s())
            for key, _ in self._selector.select(wait_s):
                key.data()
            self._listener_socket.expire()
            self._step_upgrade()
            self._watch.check()
            if self._tree.lost.is_set() and not self._stopping:
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

    def _on_events(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._event_text += os.read(self._events, EVENT_BYTES)
        *lines, self._event_text = self._event_text.split(b"\n")
        for line in lines:
            kind, _, rest = line.decode("utf-8", "replace").partition(" ")
            if kind == "gone":
                self._listeners.gone(int(rest))
            elif kind == "log":
                level, _, text = rest.partition(" ")
                log.log(LEVELS.get(int(level), logging.INFO), "%s", text)
            elif (fields := fields_of_words(f"{kind} {rest}")) is not None:
                self._record(str(fields.pop("event")), fields)

    def _record(self, event: str, fields: Mapping[str, str | int]) -> None:
        append(event, fields, str(self._places.events))
        daemon_log.event(event, fields)

    def _reload(self) -> None:
        try:
            config = read_config(self._arguments)
            check_change(self._config, config)
            self._engine.apply(config)
            self._put_in_force(config)
        except OSError as error:
            raise CgpuError(f"the settings are refused: {error.strerror}") from error
        except CgpuError as error:
            log.error("not reloaded: %s", error)
            raise
        self._config = config
        # Last, as for all that a refused configuration says: it has no effect.
        _log_as(config)
        log.info("configuration reloaded")

    def _on_upgrade(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._attempt is not None:
            raise CgpuError("another upgrade is under way; see: cgpu upgrade --dry-run")
        if not self._watch.managed and not is_heard(self._places.keeper):
            raise CgpuError(NO_KEEPER)
        program, number = programs.of(request), str(request.get("number", ""))
        running = Running(
            version=__version__,
            state_fd=self._engine.state_fd,
            tree=self._tree_path,
            driver=self._driver(),
            containers=sum(1 for _ in self._engine.containers()),
        )
        rehearse = request.get("rehearse") is True
        self._attempt = Attempt(self._arguments, running, program, number, rehearse=rehearse)
        self._selector.register(self._attempt, selectors.EVENT_READ, self._on_rehearsal)
        return {"version": __version__}

    def _driver(self) -> str:
        return str(self._engine.status()["driver"])

    def _on_rehearsal(self) -> None:
        assert self._attempt is not None
        if self._attempt.on_output():
            self._selector.unregister(self._attempt)

    def _step_upgrade(self) -> None:
        attempt = self._attempt
        if attempt is None:
            return
        attempt.step(self._become)
        if attempt.progress is Progress.ENDED:
            self._upgrade = attempt.result
            with contextlib.suppress(KeyError):
                self._selector.unregister(attempt)
            attempt.close()
            self._attempt = None

    def _become(self, program: Program) -> None:
        """Go on as another program; return where that has to wait: for a message, or for a call's end."""
        assert self._attempt is not None
        since = time.monotonic()
        if not self._listener_socket.is_idle():
            return
        take_real_time()
        in_place.hold_signals()
        if not self._pause(since) or self._on_signal():
            self._engine.resume()
            in_place.take_signals()
            give_real_time_back()
            return
        self._on_events()
        number = str(self._attempt.result["number"])
        before = in_place.Before(__version__, self._driver(), number, since, program)
        arguments = worker_arguments(self._arguments)
        in_place.execute(before, arguments, self._notify.variable, self._descriptors())

    def _pause(self, since: float) -> bool:
        while not self._engine.pause(STEP_MS):
            if time.monotonic() - since > PAUSE_MS / 1000:
                return False
        return True

    def _descriptors(self) -> dict[str, int]:
        """Return what the next program needs, by name. The tree comes last: what it is asked waits then."""
        found = {
            "seccomp": self._listener_socket.sock.fileno(),
            "control": self._control.fileno(),
            self._stored.state_name: self._engine.state_fd,
        }
        if self._engine.files_fd >= 0:
            found[FILES] = self._engine.files_fd
        for serial, name in self._listeners.names().items():
            if (fd := self._engine.listener_fd(serial)) >= 0:
                found[name] = fd
        return {**found, COVERED: self._tree.leave()}

    def _go_on(self, before: in_place.Before) -> None:
        """Note that calls are answered again."""
        pause_ms = round((time.monotonic() - before.since) * 1000, 1)
        # Calls that have waited are answered first, by threads that have begun by now.
        take_real_time()
        self._upgrade = {"number": before.number, "done": True, "from": before.version, "pause_ms": pause_ms}

    def _on_reload(self, request: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002, all commands are called alike
        self._reload()
        return {}

    def _on_stop(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._watch.managed:
            raise CgpuError("cgpud is run by systemd: systemctl stop cgpud")
        self._force = request.get("force") is True
        self._stopping = True
        reserved = [one.share for one in self._engine.reservations()]
        return {
            "pid": os.getpid(),
            "containers": [c.id for c in self._engine.containers()],
            "reservations": reserved,
        }

    def _on_tree(self, request: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002, all commands are called alike
        """Hand the tree's folder to a process that does not see its mount, as in a pod."""
        try:
            # Nothing is asked of the tree for this, which this process serves itself.
            return {PASSED: mounts.open_alone(self._tree_path)}
        except OSError as error:
            raise CgpuError(f"{self._tree_path}: cannot be opened: {error.strerror}") from error

    def _on_status(self, request: dict[str, Any]) -> dict[str, Any]:  # noqa: ARG002, all commands are called alike
        engine, arguments = self._engine, self._arguments
        return {
            "version": __version__,
            "pid": os.getpid(),
            "tree": self._tree_path,
            "config": str(arguments.config),
            "simulate": arguments.simulate,
            "arguments": worker_arguments(replace(arguments, foreground=False)),
            "program": asdict(programs.own()),
            "gpus": [
                {"index": g.index, "uuid": g.uuid, "name": g.name, "memtotal": g.memtotal}
                for g in engine.gpus()
            ],
            "containers": [{"id": c.id, "pid": c.pid, "cgroup": c.cgroup} for c in engine.containers()],
            "reservations": [
                {"share": one.share, "gpu": one.gpu, "memsize": one.memsize, "used": one.used}
                for one in engine.reservations()
            ],
            "engine": engine.status(),
            "time": time.time(),
            "upgrading": self._attempt is not None,
            "upgrade": self._upgrade,
            "managed": self._watch.managed,
            "driver_error": self._watch.driver_error(),
        }

    # --- stop ---

    def _end(self) -> None:
        containers = list(self._engine.containers())
        if self._force:
            for container in containers:
                self._engine.remove(container)
                self._on_events()
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


def _log_as(config: Effective) -> None:
    daemon_log.set_form(config.log_format)
    logging.getLogger().setLevel(config.log_level.upper())
