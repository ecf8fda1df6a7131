# SPDX-License-Identifier: Apache-2.0
"""The rehearsal of an upgrade: a cgpud tries all of its start that leaves the one that runs alone."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cgpu import __version__, paths
from cgpu.errors import CgpuError
from cgpu.kmod.abi.rows import files
from cgpu.kmod.daemon import driver_check
from cgpu.kmod.daemon.arguments import check_module, read_config
from cgpu.kmod.daemon.engine import Driver, Engine, can_take_up
from cgpu.kmod.daemon.simulate import driver_root
from cgpu.replace import replace_text

if TYPE_CHECKING:
    from cgpu.config.effective import Effective
    from cgpu.kmod.daemon.arguments import Arguments
    from cgpu.kmod.daemon.places import Places

ROOM_BYTES = 1 << 16  # for any of the files that a daemon writes when it starts


@dataclass(frozen=True, slots=True)
class Running:
    """The daemon that runs. state_fd: of its state, open in the rehearsal."""

    version: str
    state_fd: int
    tree: str
    driver: str
    containers: int


def rehearse(arguments: Arguments, text: str) -> None:
    """Try the start of this version, and print it. text: Running, as JSON. Raises CgpuError, OSError."""
    running = Running(**json.loads(text))
    config = read_config(arguments)
    tree = config.tree or paths.TREE_DAEMON
    if tree != running.tree:
        raise CgpuError(
            f"tree: {tree}: the daemon that runs has {running.tree}; "
            f"it changes only with a restart: {paths.daemon_command('restart')}"
        )
    check_module()
    if not can_take_up(running.state_fd):
        raise CgpuError(
            f"version {__version__} cannot read the state of version {running.version}; "
            "when no sliced container runs: cgpu upgrade --cold"
        )
    _try_driver(arguments, config, running)
    _try_files(arguments.places)
    print(__version__, flush=True)


def _try_driver(arguments: Arguments, config: Effective, running: Running) -> None:
    root = driver_root(arguments.simulate, arguments.places.sim, may_replace=False)
    rows = files.read(arguments.config.parent).text()
    checked = (
        driver_check.check(root, arguments.places.driver, rows, taken_up=True)
        if config.allow_unknown_driver
        else None
    )
    # An engine with a state of its own, which never starts: containers are not concerned.
    with contextlib.closing(Engine(Driver(root, rows), config)) as engine:
        status = engine.status()
        driver_check.expect(status, checked, containers=running.containers)
    if status["driver"] != running.driver:
        raise CgpuError(
            f"driver {status['driver']}: the daemon that runs speaks to driver {running.driver}; "
            "stop it and start anew"
        )


def _try_files(places: Places) -> None:
    for path in (places.effective, places.cdi, places.pid):
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
