# SPDX-License-Identifier: Apache-2.0
"""Replacing the running cgpud: hot, while containers go on, or cold, when no container has a slice."""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cgpu import __version__, paths
from cgpu.errors import CgpuError
from cgpu.install import drain
from cgpu.install.runner import Done, Runner, SystemRunner
from cgpu.kmod.daemon import control, manage
from cgpu.kmod.daemon.program import Program, of, own

if TYPE_CHECKING:
    from cgpu.kmod.daemon.places import Places

ASK_S = 10.0
REHEARSE_S = 120.0  # includes the check of a driver that is not in the table
UPGRADE_S = 80.0
GONE_S = 30.0  # for one that died to be started again
POLL_S = 0.05
PROGRAM_S = 60.0
# Becomes a command with a PYTHONPATH. A node may have no env(1).
WITH_PATH = "import os, sys; os.environ['PYTHONPATH'] = sys.argv[1]; os.execv(sys.argv[2], sys.argv[2:])"


@dataclass(frozen=True, slots=True)
class Running:
    """The daemon that runs, as it says of itself."""

    version: str
    pid: int
    tree: str
    driver: str
    containers: int
    reserved: int
    managed: bool
    arguments: list[str]
    program: Program


def running(places: Places) -> Running | None:
    """Return the daemon that runs, if one does. Raises CgpuError when it does not answer."""
    said = control.ask(str(places.control), {"command": "status"}, ASK_S)
    if said is None:
        return None
    return Running(
        str(said["version"]),
        int(said["pid"]),
        str(said["tree"]),
        str(said["engine"]["driver"]),
        len(said["containers"]),
        len(said["reservations"]),
        bool(said["managed"]),
        list(said["arguments"]),
        of(said["program"]),
    )


def installed(runner: Runner, path: str | None) -> tuple[Program, str]:
    """Return the cgpud that is to run and its version: of a path, or of this package. Raises CgpuError."""
    if path is None:
        return own(), __version__
    program = of({"argv": [str(Path(path).absolute())]})
    done = _run(runner, program, "--version")
    words = done.output.split()
    if done.status != 0 or len(words) != 2 or words[0] != "cgpud":
        raise CgpuError(f"--program {path}: is no cgpud")
    return program, words[1]


def rehearse(places: Places, before: Running, program: Program) -> str:
    """Have a program try all of its start that leaves the running cgpud alone; return its version.

    Raises CgpuError with the reason.
    """
    state = control.ask_descriptor(str(places.control), "state")
    if state is None:
        raise gone()
    names = ("version", "tree", "driver", "containers")
    about = {"state_fd": state, **{name: getattr(before, name) for name in names}}
    words = (*before.arguments, "--rehearse", json.dumps(about))
    try:
        done = _run(SystemRunner((state,)), program, *words, timeout=REHEARSE_S)
    finally:
        os.close(state)
    if done.status != 0:
        why = f"{program.argv[0]}: ended with status {done.status} before it was ready"
        if done.output.strip() or done.errors.strip():
            why = done.last_line().removeprefix("cgpud: ")
        raise CgpuError(f"{why}; cgpud {before.version} goes on")
    return done.last_line()


def hot(places: Places, before: Running, program: Program) -> dict[str, Any]:
    """Have a program rehearse its start and take over; return cgpud's result.

    Raises CgpuError with the reason. The old cgpud goes on then, unless the reason says otherwise.
    """
    rehearse(places, before, program)
    number = secrets.token_hex(8)
    request = {"command": "upgrade", "number": number}
    about = {"argv": list(program.argv), "python_path": program.python_path}
    answer = control.ask(str(places.control), {**request, **about}, ASK_S)
    if answer is None or not answer.get("ok"):
        raise CgpuError(str((answer or {}).get("error", "cgpud has ended meanwhile")))
    said = _await_result(places, number)
    result: dict[str, Any] = said["upgrade"]
    if result.get("why"):
        raise CgpuError(f"{result['why']}; cgpud {said['version']} goes on")
    _verify(before, said, result)
    return result


def cold(runner: Runner, places: Places, before: Running, program: Program) -> None:
    """Stop the running cgpud and start the other. No container is registered, and slices are refused.

    Raises CgpuError; the old cgpud is started again then, if it can be.
    """
    if before.managed:
        done = runner.run(("systemctl", "restart", "cgpud"), PROGRAM_S)
        if done.status != 0:
            raise CgpuError(f"cgpud is not restarted: {done.last_line()}; see: journalctl -u cgpud")
    else:
        # Registrations by hand are not refused, and the other cgpud may not know their state.
        left = manage.end(places, force=False)
        if left is None:
            raise _go_back(runner, before, "cgpud has ended meanwhile")
        if left.containers:
            came = f"{drain.count(len(left.containers))} came while cgpud stopped; stop them first"
            raise _go_back(runner, before, came)
        _start(runner, before, program)
    _await_running(places)


def gone() -> CgpuError:
    """Return the error for a cgpud that has ended during the upgrade."""
    return CgpuError(f"cgpud does not run any more; start it with: {paths.daemon_command('start')}")


def _await_result(places: Places, number: str) -> dict[str, Any]:
    until = time.monotonic() + UPGRADE_S
    seen = time.monotonic()
    while time.monotonic() < until:
        said = control.ask(str(places.control), {"command": "status"}, ASK_S)
        if said is not None:
            seen = time.monotonic()
            result = said.get("upgrade")
            if isinstance(result, dict) and result.get("number") == number:
                return said
            if not said.get("upgrading"):
                raise CgpuError(
                    f"cgpud died during the upgrade and was started anew: version {said['version']} runs as "
                    f"process {said['pid']}; what was charged is kept; try again: cgpu upgrade"
                )
        elif time.monotonic() > seen + GONE_S:
            raise gone()
        time.sleep(POLL_S)
    raise CgpuError(f"the upgrade has not ended within {UPGRADE_S:g} s; see: cgpud --status")


def _verify(before: Running, said: dict[str, Any], result: dict[str, Any]) -> None:
    tree = Path(before.tree, "version").read_text().strip()
    if not result["done"] or tree != said["version"]:
        raise CgpuError(
            f"cgpud {said['version']} runs as process {said['pid']}, and its tree says version {tree}: "
            "not what was asked for; see: cgpud --status"
        )


def _run(runner: Runner, program: Program, *arguments: str, timeout: float = PROGRAM_S) -> Done:
    command = program.command(*arguments)
    if program.python_path is not None:
        command = [sys.executable, "-ISc", WITH_PATH, program.python_path, *command]
    return runner.run(command, timeout)


def _start(runner: Runner, before: Running, program: Program) -> None:
    try:
        done = _run(runner, program, *before.arguments)
        why = done.last_line().removeprefix("cgpud: ") if done.status != 0 else None
    except CgpuError as error:
        why = str(error)
    if why is not None:
        raise _go_back(runner, before, why)


def _go_back(runner: Runner, before: Running, why: str) -> CgpuError:
    """Start the old cgpud again; return the error to raise."""
    if _run(runner, before.program, *before.arguments).status != 0:
        return CgpuError(f"{why}; cgpud does not run now; start it with: {paths.daemon_command('start')}")
    return CgpuError(f"{why}; cgpud {before.version} runs again")


def _await_running(places: Places) -> Running:
    until = time.monotonic() + GONE_S
    while (found := running(places)) is None:
        if time.monotonic() > until:
            raise CgpuError(f"cgpud does not run; start it with: {paths.daemon_command('start')}")
        time.sleep(POLL_S)
    return found
