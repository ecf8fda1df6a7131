# SPDX-License-Identifier: Apache-2.0
"""Questions and orders to a running daemon: cgpud --status, cgpud --stop."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from cgpu import paths
from cgpu.errors import CgpuError
from cgpu.kmod.daemon import control
from cgpu.kmod.daemon.processes import process_identity
from cgpu.kmod.daemon.processes.process_identity import UNKILLABLE_S, is_unkillable
from cgpu.kmod.daemon.simulate import Simulator
from cgpu.kmod.daemon.store import notify_socket
from cgpu.kmod.daemon.store.notify_socket import END, STOP, order

if TYPE_CHECKING:
    from cgpu.kmod.daemon.places import Places

STOP_S = 30.0
LATE = "the daemon does not stop; its process is named by: cgpud --status"


def status(places: Places) -> None:
    """Print what the running daemon says. Raises CgpuError when there is none."""
    answer = control.ask(str(places.control), {"command": "status"})
    if answer is None:
        raise CgpuError(f"cgpud does not run; start it with: {paths.daemon_command('start')}")
    print(json.dumps(answer, indent=1))


def end(places: Places, *, force: bool) -> list[str] | None:
    """Stop the daemon and wait until it is gone; return the containers that it had.

    None: no daemon has answered. Raises CgpuError.
    """
    answer = control.ask(str(places.control), {"command": "stop", "force": force})
    if answer is not None and "error" in answer:
        raise CgpuError(str(answer["error"]))
    keeper = notify_socket.is_heard(places.keeper)
    if answer is None and keeper:
        # None runs, or it is just being started, or cannot be.
        line = order(places.keeper, f"{END if force else STOP}=1", STOP_S)
        if line is None and notify_socket.is_heard(places.keeper):
            raise CgpuError(LATE)
    elif answer is None:
        # A daemon that died without a keeper may have left simulated cards.
        Simulator(places.sim).stop()
        places.keeper.unlink(missing_ok=True)
        return None
    held = not force and (answer is None or bool(answer.get("containers")))
    _await_end(places, int(answer["pid"]) if answer is not None else 0, keeper=keeper and not held)
    if force:
        # One that did not come up, or died, has left them.
        Simulator(places.sim).stop()
    if not keeper:
        places.keeper.unlink(missing_ok=True)
    return None if answer is None else list(answer.get("containers", []))


def _await_end(places: Places, pid: int, *, keeper: bool) -> None:
    """Wait for the daemon's end, and for its keeper's. Raises CgpuError."""
    daemon = process_identity.of(pid)
    deadline = time.monotonic() + STOP_S
    killed: float | None = None
    while time.monotonic() < deadline:
        gone = not daemon.started or process_identity.living_start_time(pid) != daemon.started
        if is_unkillable(daemon):
            killed = killed or time.monotonic()
        # It has threads that cannot end, and does nothing any more.
        gone = gone or (killed is not None and time.monotonic() - killed > UNKILLABLE_S)
        if gone and not (keeper and places.keeper.exists()):
            return
        time.sleep(0.01)
    raise CgpuError(LATE)
