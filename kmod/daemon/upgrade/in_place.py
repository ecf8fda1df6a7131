# SPDX-License-Identifier: Apache-2.0
"""This process becomes another cgpud, which finds its descriptors as after a restart by the keeper."""

from __future__ import annotations

import json
import logging
import os
import signal
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NoReturn

from cgpu.kmod.daemon.program import Program, of
from cgpu.kmod.daemon.store.keeper import place_fds, worker_environment

if TYPE_CHECKING:
    from collections.abc import Mapping, MutableMapping, Sequence

log = logging.getLogger(__name__)

VARIABLE = "CGPU_UPGRADE"
SIGNALS = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGHUP})


@dataclass(frozen=True, slots=True)
class Before:
    """The program before this one in this process. since: when it began to keep calls waiting."""

    version: str
    driver: str
    number: str  # of the attempt
    since: float
    program: Program  # this one, as it was asked for


def hold_signals() -> None:
    """Have signals to end and to reload wait for the next program, which is deaf to them at its start."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)


def take_signals() -> None:
    """Take signals, also those that have waited."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def execute(
    before: Before, arguments: Sequence[str], notify: str, descriptors: Mapping[str, int]
) -> NoReturn:
    """Become the program. If it cannot be begun, the keeper or systemd starts a cgpud with what is stored."""
    try:
        # Helpers end with their sockets, and nobody waits for them.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        environment = worker_environment(os.getpid(), notify, list(descriptors), before.program)
        environment[VARIABLE] = json.dumps(asdict(before))
        command = before.program.command("--worker", *arguments)
        place_fds(list(descriptors.values()))
        os.execve(command[0], command, environment)
    except OSError as error:
        log.error("upgrade: %s: cannot be begun: %s", before.program.argv[0], error.strerror)
    finally:
        logging.shutdown()
        os._exit(1)


def take(environment: MutableMapping[str, str]) -> Before | None:
    """Return what was before in this process, once; None: nothing was."""
    if (text := environment.pop(VARIABLE, None)) is None:
        return None
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    found = json.loads(text)
    return Before(**{**found, "program": of(found["program"])})
