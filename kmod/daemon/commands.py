# SPDX-License-Identifier: Apache-2.0
"""The commands of the control socket: what the daemon says of itself, and orders to it."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from cgpu import __version__
from cgpu.errors import CgpuError
from cgpu.kmod.daemon import program as programs
from cgpu.kmod.daemon.arguments import worker_arguments
from cgpu.kmod.daemon.control import PASSED
from cgpu.kmod.daemon.store.notify_socket import is_heard
from cgpu.kmod.daemon.tree import mounts

if TYPE_CHECKING:
    from cgpu.kmod.daemon.arguments import Arguments
    from cgpu.kmod.daemon.engine import Engine
    from cgpu.kmod.daemon.upgrade.upgrades import Upgrades
    from cgpu.kmod.daemon.watch import Watch

NO_KEEPER = (
    "the keeper of cgpud has died, so no other cgpud can hold what containers need; "
    "when no sliced container runs: cgpud --stop, then cgpud"
)


class Commands:
    """Answers by the state of the daemon's parts."""

    def __init__(
        self,
        arguments: Arguments,
        tree: str,
        engine: Engine,
        watch: Watch,
        upgrades: Upgrades,
    ) -> None:
        """tree: its path."""
        self._arguments = arguments
        self._path = tree
        self._engine = engine
        self._watch = watch
        self._upgrades = upgrades

    def status(self, _: dict[str, Any]) -> dict[str, Any]:
        """Return what `cgpud --status` prints."""
        engine, arguments = self._engine, self._arguments
        return {
            "version": __version__,
            "pid": os.getpid(),
            "tree": self._path,
            "config": str(arguments.config),
            "simulate": arguments.simulate,
            "arguments": worker_arguments(replace(arguments, foreground=False)),
            "program": asdict(programs.own()),
            "gpus": [
                {"index": g.index, "uuid": g.uuid, "name": g.name, "memtotal": g.memtotal}
                for g in engine.gpus()
            ],
            "containers": [{"id": c.id, "pid": c.pid, "cgroup": c.cgroup} for c in engine.containers()],
            "reservations": [asdict(one) for one in engine.reservations()],
            "engine": engine.status(),
            "time": time.time(),
            "upgrading": self._upgrades.is_under_way(),
            "upgrade": self._upgrades.last,
            "managed": self._watch.managed,
            "driver_error": self._watch.driver_error(),
        }

    def stop(self, _: dict[str, Any]) -> dict[str, Any]:
        """Return what the daemon leaves when it stops. Raises CgpuError where it may not be stopped so."""
        if self._watch.managed:
            raise CgpuError("cgpud is run by systemd: systemctl stop cgpud")
        return {
            "pid": os.getpid(),
            "containers": [one.id for one in self._engine.containers()],
            "reservations": [one.share for one in self._engine.reservations()],
        }

    def upgrade(self, request: dict[str, Any]) -> dict[str, Any]:
        """Have a program that has rehearsed its start take over. Raises CgpuError."""
        if not self._watch.managed and not is_heard(self._arguments.places.keeper):
            raise CgpuError(NO_KEEPER)
        self._upgrades.begin(programs.of(request), str(request.get("number", "")))
        return {"version": __version__}

    def state(self, _: dict[str, Any]) -> dict[str, Any]:
        """Hand the state to a program that rehearses its start."""
        return {PASSED: os.dup(self._engine.state_fd)}

    def tree(self, _: dict[str, Any]) -> dict[str, Any]:
        """Hand the tree's folder to a process that does not see its mount, as in a pod. Raises CgpuError."""
        try:
            # Nothing is asked of the tree for this, which this process serves itself.
            return {PASSED: mounts.open_alone(self._path)}
        except OSError as error:
            raise CgpuError(f"{self._path}: cannot be opened: {error.strerror}") from error
