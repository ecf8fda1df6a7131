# SPDX-License-Identifier: Apache-2.0
"""Questions and orders to a running daemon: cgpud --status, cgpud --stop."""

from __future__ import annotations

import contextlib
import json
import time
from typing import TYPE_CHECKING

from cgpu import paths
from cgpu.errors import CgpuError
from cgpu.kmod.daemon import control, notify_socket
from cgpu.kmod.daemon.keeper import END
from cgpu.kmod.daemon.notify_socket import NotifySocket
from cgpu.kmod.daemon.simulate import Simulator, start_time

if TYPE_CHECKING:
    from cgpu.kmod.daemon.places import Places

STOP_S = 30.0


def status(places: Places) -> int:
    """Print what the running daemon says. Raises CgpuError when there is none."""
    answer = control.ask(str(places.control), {"command": "status"})
    if answer is None:
        raise CgpuError(f"cgpud does not run; start it with: {paths.daemon_command('start')}")
    print(json.dumps(answer, indent=1))
    return 0


def stop(places: Places, *, force: bool) -> int:
    """Stop the daemon and wait until it is gone. Raises CgpuError."""
    answer = control.ask(str(places.control), {"command": "stop", "force": force})
    if answer is not None and "error" in answer:
        raise CgpuError(str(answer["error"]))
    keeper = notify_socket.is_heard(places.keeper)
    if answer is None:
        if force and keeper:
            with contextlib.suppress(OSError):
                NotifySocket(str(places.keeper)).send(f"{END}=1")
        elif not keeper:
            # A daemon that died without a keeper may have left simulated cards.
            Simulator(places.sim).stop()
            places.keeper.unlink(missing_ok=True)
            return 0
    held = answer is not None and bool(answer.get("containers")) and not force
    _await_end(places, int(answer["pid"]) if answer is not None else 0, keeper=keeper and not held)
    if not keeper:
        places.keeper.unlink(missing_ok=True)
    return 0


def _await_end(places: Places, pid: int, *, keeper: bool) -> None:
    """Wait for the daemon's end, and for its keeper's. Raises CgpuError."""
    started = start_time(pid)
    deadline = time.monotonic() + STOP_S
    while time.monotonic() < deadline:
        gone = not started or start_time(pid) != started
        if gone and not (keeper and places.keeper.exists()):
            return
        time.sleep(0.01)
    raise CgpuError("the daemon does not stop; its process is named by: cgpud --status")
