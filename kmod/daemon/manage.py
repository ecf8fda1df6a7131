# SPDX-License-Identifier: Apache-2.0
"""Questions and orders to a running daemon: cgpud --status, cgpud --stop."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cgpu import paths, process_identity
from cgpu.client.directory import directory_of
from cgpu.errors import CgpuError, one_line, some
from cgpu.kmod.daemon import control
from cgpu.kmod.daemon.simulate import Simulator
from cgpu.kmod.daemon.store import notify_socket
from cgpu.kmod.daemon.store.notify_socket import END, STOP, order
from cgpu.process_identity import UNKILLABLE_S, is_unkillable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cgpu.kmod.daemon.places import Places

STOP_S = 30.0
NAMED = 20  # containers in a line
LATE = "the daemon does not stop; its process is named by: cgpud --status"


def status(places: Places) -> None:
    """Print the running daemon's answer. Raises CgpuError when there is none."""
    answer = control.ask(str(places.control), {"command": "status"})
    if answer is None:
        raise CgpuError(f"cgpud does not run; start it with: {paths.daemon_command('start')}")
    print(json.dumps(answer, indent=1))


def started(places: Places) -> str:
    """Return where the daemon is that has just become ready, in one line."""
    answer = control.ask(str(places.control), {"command": "status"}) or {}
    return one_line(
        f"cgpud has started as process {answer.get('pid', '?')}: tree {answer.get('tree', '?')}, "
        f"socket {places.seccomp}, {cards(answer)}; stop it: cgpud --stop"
    )


def cards(answer: Mapping[str, Any]) -> str:
    """Return the cards of a daemon and whose they are, out of its status."""
    names = [str(gpu.get("name")) for gpu in answer.get("gpus", [])]
    counted = ", ".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names)) or "no GPU"
    if answer.get("simulate"):
        return f"{counted} (simulated)"
    return f"{counted} (driver {answer.get('engine', {}).get('driver', '?')})"


@dataclass(frozen=True, slots=True)
class Left:
    """The ids of the containers and of the reserved shares that a daemon had when it was told to stop."""

    containers: list[str]
    reservations: list[str]

    @classmethod
    def of(cls, answer: dict[str, Any]) -> Left:
        """Take them out of the daemon's answer."""
        return cls(list(answer.get("containers", [])), list(answer.get("reservations", [])))


def stopped(places: Places, left: Left | None, *, force: bool) -> str:
    """Report a stop in one line. left: the daemon's containers; None: no daemon has answered."""
    if left is None:
        if force or not notify_socket.is_heard(places.keeper):
            return "cgpud was not running"
        return "cgpud was not running; containers may wait for its next start (cgpud --stop --force ends it)"
    containers = left.containers
    if not containers:
        if not left.reservations:
            return "cgpud has stopped"
        fate = "are released" if force else "wait for its next start"
        return f"cgpud has stopped; its reservations ({len(left.reservations)}) {fate}"
    named = some([directory_of(one) for one in containers], NAMED)
    if force:
        return one_line(f"cgpud has stopped; these containers have lost their slices: {named}")
    return one_line(
        "cgpud has stopped; these containers keep their slices, and their GPU calls wait for its next start: "
        + named
    )


def end(places: Places, *, force: bool) -> Left | None:
    """Stop the daemon and wait until it is gone; return its containers and reservations.

    Return None when no daemon has answered. Raises CgpuError.
    """
    answer = control.ask(str(places.control), {"command": "stop", "force": force})
    if answer is not None and "error" in answer:
        raise CgpuError(str(answer["error"]))
    keeper = notify_socket.is_heard(places.keeper)
    if answer is None and keeper:
        # The keeper has no daemon, or is just starting it, or cannot start it.
        line = order(places.keeper, f"{END if force else STOP}=1", STOP_S)
        if line is None and notify_socket.is_heard(places.keeper):
            raise CgpuError(LATE)
    elif answer is None:
        # A daemon that died without a keeper may have left simulated cards.
        Simulator(places.sim).stop()
        places.keeper.unlink(missing_ok=True)
        return None
    left = Left.of(answer or {})
    held = not force and (answer is None or bool(left.containers or left.reservations))
    _await_end(places, int(answer["pid"]) if answer is not None else 0, keeper=keeper and not held)
    if force:
        # A daemon that did not come up, or died, has left simulated cards.
        Simulator(places.sim).stop()
    if not keeper:
        places.keeper.unlink(missing_ok=True)
    return None if answer is None else left


def _await_end(places: Places, pid: int, *, keeper: bool) -> None:
    """Wait for the daemon's end, and for its keeper's. Raises CgpuError."""
    daemon = process_identity.of(pid)
    deadline = time.monotonic() + STOP_S
    killed: float | None = None
    while time.monotonic() < deadline:
        gone = not daemon.started or process_identity.living_start_time(pid) != daemon.started
        if is_unkillable(daemon):
            killed = killed or time.monotonic()
        # The daemon has threads that cannot end, and does nothing any more.
        gone = gone or (killed is not None and time.monotonic() - killed > UNKILLABLE_S)
        if gone and not (keeper and places.keeper.exists()):
            return
        time.sleep(0.01)
    raise CgpuError(LATE)
