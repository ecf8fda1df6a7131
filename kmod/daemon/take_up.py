# SPDX-License-Identifier: Apache-2.0
"""The start of the engine, with what the daemon before this one has left."""

from __future__ import annotations

import contextlib
import logging
import os
from functools import partial
from typing import TYPE_CHECKING

from cgpu.check_driver.run import timeout_s
from cgpu.kmod.abi.rows import files
from cgpu.kmod.daemon import driver_check
from cgpu.kmod.daemon.engine import Driver, Engine, StaleStateError
from cgpu.kmod.daemon.simulate import driver_root
from cgpu.kmod.daemon.store.notify_socket import RESERVED
from cgpu.kmod.daemon.store.stored import FILES

if TYPE_CHECKING:
    from cgpu.config.effective import Effective
    from cgpu.kmod.daemon.arguments import Arguments
    from cgpu.kmod.daemon.store.notify_socket import NotifySocket
    from cgpu.kmod.daemon.store.stored import Stored
    from cgpu.kmod.daemon.upgrade.in_place import Before

log = logging.getLogger(__name__)

START_S = 60.0  # of the steps after the driver's check


def take_up_engine(
    arguments: Arguments,
    config: Effective,
    stored: Stored,
    notify: NotifySocket,
    before: Before | None,
    event_fd: int,
) -> Engine:
    """Open the engine and store what it has; it answers no call yet. Raises CgpuError.

    before: the program before this one in this process. event_fd: gets the engine's lines.
    """
    # Cards under a running container must stay the same.
    root = driver_root(arguments.simulate, arguments.places.sim, may_replace=not stored.is_in_use())
    state_fd = stored.take_state()
    checked = None
    rows = files.read(arguments.config.parent)
    for problem in rows.problems:
        log.warning("%s", problem)
    if config.allow_unknown_driver:
        checked = _check_driver(root, arguments, rows.text(), notify, before, taken_up=state_fd >= 0)
    if (marker := stored.take(RESERVED)) >= 0:
        os.close(marker)
    files_fd = stored.take(FILES)
    start = partial(Engine, Driver(root, rows.text()), config, event_fd=event_fd, follows=before is not None)
    try:
        engine = start(state_fd=state_fd, files_fd=files_fd)
    except StaleStateError as error:
        log.error("%s; starting without it, running containers lose their GPUs", error)
        stored.drop()
        state_fd = files_fd = -1
        engine = start()
    with contextlib.ExitStack() as undo:
        undo.callback(engine.close)
        containers = sum(1 for _ in engine.containers())
        driver_check.expect(engine.status(), checked, containers=containers)
        stored.keep(engine, state_fd, files_fd)
        undo.pop_all()
    return engine


def _check_driver(
    root: str, arguments: Arguments, rows: str, notify: NotifySocket, before: Before | None, *, taken_up: bool
) -> driver_check.Checked | None:
    if before is not None:  # it has had this version check the driver
        return driver_check.Checked(before.driver)
    # systemd gives up on a start that takes longer than its limit, unless it is asked for more time.
    notify.send(f"EXTEND_TIMEOUT_USEC={(timeout_s(root) + START_S) * 1e6:.0f}")
    return driver_check.check(root, arguments.places.driver, rows, taken_up=taken_up)
