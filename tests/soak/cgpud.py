# SPDX-License-Identifier: Apache-2.0
"""cgpud for a soak, on a simulated card: small programs live in its slices, as under a runtime."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from tests.daemon.harness import Daemon, Sliced, short_path
from tests.daemon.upgrades import await_one, held, upgrade
from tests.integration.commands import eventually
from tests.soak.flow import Life, Registration

ANONYMOUS = re.compile(r"^RssAnon:\s*(\d+) kB", re.MULTILINE)
# The engine's tables, and its queues: keys of the tree's entry `stat`.
EMPTY = ("containers", "clients", "objects", "listeners_held", "answers_kept", "calls_now")
# Allowed growth until the end: a worker starts when all others are busy, and stays.
SPARE = {"descriptors": 0, "threads": 2}


@contextmanager
def started() -> Iterator[Cgpud]:
    with short_path() as base, subprocess.Popen(["/bin/sleep", "infinity"]) as idle:
        daemon = Daemon(base)
        try:
            yield Cgpud(daemon, idle.pid)
        finally:
            idle.kill()
            daemon.close()


class Cgpud:
    """A daemon in a folder of its own."""

    def __init__(self, daemon: Daemon, idle: int) -> None:
        """Remember how it is at the start. idle: a process for registrations."""
        self._daemon, self._idle = daemon, idle
        self._lives: list[Sliced] = []
        self._files, self._held = self._listed(), (0, 0)

    def register(self, asked: Sequence[Registration]) -> int:
        for number, words, error in asked:
            found = ""
            try:
                self._daemon.write("inst_ctl", f"create id=soak{number} pid={self._idle} {words}")
            except OSError as failure:
                found = errno.errorcode[failure.errno or 0]
            assert found == error, f"{words}: {found or 'made'}, expected {error or 'none'}"
            if not error:
                self._daemon.write("inst_ctl", f"destroy id=soak{number}")
        self._held = self._held if any(self._held) else held(self._daemon.pid())
        return sum(error != "" for _, _, error in asked)

    def begin(self, lives: Sequence[Life]) -> None:
        for number, kind, size in lives:
            words = {"over": (f"alloc={size >> 19}M", "info"), "ends": ("alloc=32M", "info", "free=all")}
            until = "" if kind in words else "alloc"
            words_of_kind = words.get(kind, ("alloc=32M", "hold"))
            self._lives.append(self._daemon.slice(number + 1, f"gpu=0:{size}", *words_of_kind, until=until))

    def end(self, lives: Sequence[Life]) -> None:
        for sliced, (_, kind, _) in zip(self._lives, lives, strict=True):
            if kind == "removed":
                self._daemon.write("inst_ctl", f"destroy id={sliced.id}")
            if kind in ("killed", "removed"):
                os.killpg(sliced.process.pid, signal.SIGKILL)
            said = sliced.finish()
            assert kind != "over" or "status=0x51" in said, said
            assert kind != "ends" or sliced.process.returncode == 0, said
        ids = [sliced.id for sliced in self._lives]
        self._daemon._kill_slices()
        self._lives.clear()
        eventually(lambda: not any(map(self._daemon.is_registered, ids)), "they have gone")

    def change(self) -> int:
        upgrade(self._daemon)
        await_one(self._daemon)
        self._daemon.crash()
        await_one(self._daemon)
        return 1

    def memory(self) -> dict[str, int]:
        """Return it without pages of files; of several processes of a name that of the largest."""
        run, found = self._daemon.run, dict[str, int]()
        for one in psutil.process_iter(["name", "cmdline"]):
            words = one.info["cmdline"] or ()
            if {str(run), f"{run}/sim"}.isdisjoint(words):
                continue
            # Helpers have names, and the command line of the process that they are copies of.
            name = "cgpud" if "--worker" in words else "its keeper"
            name = one.info["name"] if one.info["name"].startswith(("cgpud-", "cgpu-sim")) else name
            with suppress(OSError):  # a helper may end meanwhile
                kib = ANONYMOUS.search(Path(f"/proc/{one.pid}/status").read_text())
                found[name] = max(found.get(name, 0), int(kib[1]) if kib else 0)
        return found

    def left(self) -> list[str]:
        try:
            eventually(lambda: not self._entries(), "nothing is left in the tree", 30)
        except AssertionError:
            return self._entries()
        found = [f"file {name}" for name in sorted(self._listed() - self._files)]
        found += [f"{given} bytes of the card" for given in [self._daemon.given()] if given]
        now = zip(SPARE.items(), self._held, held(self._daemon.pid()), strict=True)
        return found + [
            f"{more - before} {what} of cgpud" for (what, spare), before, more in now if more > before + spare
        ]

    def _listed(self) -> set[str]:
        """Return the files of the daemon's folder but for its logs, which have an older half each."""
        return {name for name in os.listdir(self._daemon.run) if ".log" not in name}

    def _entries(self) -> list[str]:
        said = dict(word.split("=", 1) for word in self._daemon.read("stat").split())
        found = [f"container {name}" for name in self._daemon.instances()]
        return found + [f"{key}={said[key]}" for key in EMPTY if said[key] != "0"]
