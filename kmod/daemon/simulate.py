# SPDX-License-Identifier: Apache-2.0
"""The server of simulated GPUs: found, or started. It runs apart from the daemon, as a driver does."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from cgpu import suggest
from cgpu.errors import CgpuError, show
from cgpu.kmod.daemon.tree import mounts
from cgpu.process_identity import ProcessIdentity, living_start_time
from cgpu.replace import replace_text

DRIVER_ROOT = "/dev"
PROGRAM = Path(__file__).resolve().parent.parent / "build" / "cgpu-sim"
CARDS = re.compile(
    r"([A-Za-z][A-Za-z0-9-]*)(=[1-9][0-9]{0,7})?((?::(?:[1-9]|[12][0-9]|3[0-2]))?(?:/mig=[0-9]{1,2})?)"
)
ALIKE = 0.5  # the likeness of a model's name from which it is proposed
NOT_BUILT = "{}: there is no such program; build it: make -C kmod"
START_S = 20.0
END_S = 5.0
RECORD_MAX = 4096


@dataclass(frozen=True, slots=True)
class Server:
    """A running server: its process, its start time (pids are used again), and the cards it serves."""

    pid: int
    started: int
    cards: str


@functools.cache
def models() -> tuple[str, ...]:
    """Return the models that cgpu-sim can simulate. Raises CgpuError."""
    try:
        done = subprocess.run(
            [PROGRAM, "--list"], capture_output=True, text=True, check=False, timeout=START_S
        )
    except FileNotFoundError:
        raise CgpuError(NOT_BUILT.format(PROGRAM)) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CgpuError(f"{PROGRAM} --list: {error}") from error
    if done.returncode != 0:
        raise CgpuError(f"{PROGRAM} --list: exit status {done.returncode}: {show(done.stderr.strip())}")
    return tuple(line.partition("\t")[0] for line in done.stdout.splitlines())


def check_cards(cards: str) -> str:
    """Return MODEL[=MIB][:COUNT][/mig=CARD] with the model as models() has it. Raises CgpuError."""
    found = CARDS.fullmatch(cards)
    if not found:
        expected = "MODEL[=MIB][:COUNT][/mig=CARD], COUNT 1 to 32"
        examples = "such as T4, T4:2 for two, or T4=8192 for 8192 MiB"
        raise CgpuError(f"--simulate {show(cards)}: expected {expected}, {examples}")
    return _check_model(found[1]) + (found[2] or "") + found[3]


def _check_model(name: str) -> str:
    """Return a model, in capitals or not, as models() has it. Raises CgpuError."""
    model = name.upper()
    if model in models():
        return model
    near = _nearest(model)
    hint = f"did you mean {near}? " if near is not None else ""
    raise CgpuError(f"--simulate {show(name)}: there is no such model; {hint}all models: cgpud --help")


def _nearest(model: str) -> str | None:
    """Return the models that were probably meant: those of the same card, else the one with a like name."""
    card = model.partition("-")[0]
    same = [one for one in models() if one.partition("-")[0] == card]
    return suggest.one_of(same) if same else suggest.nearest(model, models(), ALIKE)


class Simulator:
    """Simulated cards below a directory."""

    def __init__(self, directory: Path) -> None:
        """directory: where the cards' nodes are mounted. Beside it lies a record of the server."""
        self._directory = directory
        self._record = directory.with_name(directory.name + ".json")
        self._log = directory.with_name(directory.name + ".log")

    def running(self) -> Server | None:
        """Return the server that is up, if it answers."""
        try:
            with self._record.open("rb") as stream:
                found = json.loads(stream.read(RECORD_MAX))
            server = Server(int(found["pid"]), int(found["started"]), str(found["cards"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        alive = server.started and living_start_time(server.pid) == server.started
        return server if alive and self._answers() else None

    def ensure(self, cards: str, *, may_replace: bool) -> str:
        """Have these cards served; return the directory of their nodes.

        A server with other cards is replaced when may_replace. Raises CgpuError.
        """
        server = self.running()
        if server is not None and server.cards == cards:
            return str(self._directory)
        if server is not None and not may_replace:
            raise CgpuError(
                f"--simulate {cards}: simulated {server.cards} is in use by containers; stop them first"
            )
        self.stop()
        self._start(cards)
        return str(self._directory)

    def stop(self) -> None:
        """End the server, if any, and take leftovers away."""
        server = self.running()
        if server is not None:
            ProcessIdentity(server.pid, server.started).signal(signal.SIGTERM)
            deadline = time.monotonic() + END_S
            while living_start_time(server.pid) == server.started and time.monotonic() < deadline:
                time.sleep(0.01)
        mounts.clear_fuse(str(self._directory))
        for leftover in (self._record, self._log):
            leftover.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._directory.rmdir()

    def _answers(self) -> bool:
        try:
            return (self._directory / "driver" / "version").read_text().strip() != ""
        except OSError:
            return False

    def _start(self, cards: str) -> None:
        if not PROGRAM.exists():
            raise CgpuError(NOT_BUILT.format(PROGRAM))
        self._directory.mkdir(parents=True, exist_ok=True)
        command = [str(PROGRAM), "--mount", str(self._directory), "--cards", cards]
        # A session of its own: a signal to the daemon's group must not reach it. A file for its errors:
        # a pipe would break when the daemon goes.
        with open("/dev/null", "r+b") as null, self._log.open("wb") as errors:
            child = subprocess.Popen(command, stdin=null, stdout=null, stderr=errors, start_new_session=True)
        record = {"pid": child.pid, "started": living_start_time(child.pid), "cards": cards}
        replace_text(self._record, json.dumps(record))
        deadline = time.monotonic() + START_S
        while not (mounts.mounted(str(self._directory)) and self._answers()):
            if child.poll() is not None or time.monotonic() > deadline:
                reason = self._failure(child)
                raise CgpuError(f"--simulate {cards}: the simulated cards do not start: {reason}")
            time.sleep(0.005)
        # Its end is its own affair, not ours to wait for.
        child.returncode = 0

    def _failure(self, child: subprocess.Popen[bytes]) -> str:
        child.kill()
        child.wait()
        with self._log.open("rb") as stream:
            text = "; ".join(stream.read(RECORD_MAX).decode(errors="replace").split("\n")).strip("; ")
        self.stop()
        return text or "they do not answer; it takes /dev/fuse"


def driver_root(cards: str | None, directory: Path, *, may_replace: bool) -> str:
    """Return the folder of the driver's nodes; cards: have these simulated. Raises CgpuError."""
    if cards is None:
        return DRIVER_ROOT
    return Simulator(directory).ensure(cards, may_replace=may_replace)
