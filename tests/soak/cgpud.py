# SPDX-License-Identifier: Apache-2.0
"""The soak of cgpud, on a simulated card: small programs live in its slices, as under a runtime."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import time
from collections.abc import Collection
from pathlib import Path

import psutil

from tests.daemon.harness import Daemon, Sliced, long_id, short_path
from tests.daemon.upgrades import await_one, held, upgrade
from tests.integration.commands import eventually
from tests.soak import plan
from tests.soak.plan import Counts
from tests.soak.result import Result

AT_ONCE = 4
ALLOWED_KIB = 1024
# The engine's tables, and what waits in it: keys of the tree's entry `stat`.
EMPTY = ("containers", "clients", "objects", "listeners_held", "answers_kept", "calls_now")


def soak(counts: Counts, seed: int, forgotten: Collection[int] = ()) -> Result:
    """Run it. forgotten: numbers of registrations that nobody takes back, for a test of this soak."""
    began = time.monotonic()
    result = Result("cgpud", counts, ALLOWED_KIB)
    with short_path() as base, subprocess.Popen(["/bin/sleep", "infinity"]) as idle:
        daemon = Daemon(base, "T4")
        try:
            _run(daemon, result, random.Random(seed), idle.pid, forgotten)  # noqa: S311 - a plan, no secret
        finally:
            idle.kill()
            daemon.close()
    result.seconds = time.monotonic() - began
    return result


def _run(
    daemon: Daemon, result: Result, chance: random.Random, idle: int, forgotten: Collection[int]
) -> None:
    counts, files = result.counts, sorted(os.listdir(daemon.run))
    tenth, half = counts.registrations // 10, counts.lives // 2
    _register(daemon, result, chance, (0, tenth, idle), forgotten)
    before = held(daemon.pid())
    result.memory["registrations 10 %"] = memory(daemon)
    _register(daemon, result, chance, (tenth, counts.registrations, idle), forgotten)
    result.memory["registrations"] = memory(daemon)
    _live(daemon, result, chance, 0, counts.lives // 10)
    result.memory["lives 10 %"] = memory(daemon)
    _live(daemon, result, chance, counts.lives // 10, half)
    result.memory["lives 50 %"] = memory(daemon)
    _live(daemon, result, chance, half, counts.lives)
    result.left = _left(daemon, files, before)
    result.memory["end"] = memory(daemon)


def _register(
    daemon: Daemon,
    result: Result,
    chance: random.Random,
    which: tuple[int, int, int],
    forgotten: Collection[int],
) -> None:
    """Register and remove, from one number to another, for a process."""
    first, last, pid = which
    for number, (words, error) in enumerate(plan.registrations(first, last, chance), first):
        found = ""
        try:
            daemon.write("inst_ctl", f"create id=soak{number} pid={pid} {words}")
        except OSError as failure:
            found = errno.errorcode[failure.errno or 0]
            result.refused += 1
        assert found == error, f"{words}: {found or 'made'}, expected {error or 'none'}"
        if not error and number not in forgotten:
            daemon.write("inst_ctl", f"destroy id=soak{number}")


def _live(daemon: Daemon, result: Result, chance: random.Random, first: int, last: int) -> None:
    """Have containers live, some at a time; the engine dies or is upgraded while they do."""
    changes = set(result.counts.change_after())
    for at in range(first, last, AT_ONCE):
        group = list(plan.lives(at, min(at + AT_ONCE, last), chance))
        begun = [(_begin(daemon, number, kind, size), kind) for number, kind, size in group]
        for _ in changes.intersection(number for number, _, _ in group):
            upgrade(daemon)
            await_one(daemon)
            result.upgrades += 1
            daemon.crash()
            result.deaths += 1
        for sliced, kind in begun:
            _end(daemon, sliced, kind)
        daemon._kill_slices()
        ids = [sliced.id for sliced, _ in begun]
        eventually(lambda ids=ids: not any(map(daemon.is_registered, ids)), "they have gone")  # type: ignore[misc]


def _begin(daemon: Daemon, number: int, kind: str, size: int) -> Sliced:
    words = {"over": (f"alloc={2 * size >> 20}M", "info"), "ends": ("alloc=32M", "info", "free=all")}
    stays = kind not in words
    return daemon.slice(
        number + 1,
        f"gpu=0:{size}",
        *words.get(kind, ("alloc=32M", "hold")),
        until="alloc" if stays else "",
    )


def _end(daemon: Daemon, sliced: Sliced, kind: str) -> None:
    if kind == "removed":
        daemon.write("inst_ctl", f"destroy id={long_id(int(sliced.id[:12], 16))}")
    if kind in ("killed", "removed"):
        os.killpg(sliced.process.pid, signal.SIGKILL)
    said = sliced.finish()
    assert kind != "over" or "status=0x51" in said, said
    assert kind != "ends" or sliced.process.returncode == 0, said


def memory(daemon: Daemon) -> dict[str, int]:
    """Return the resident KiB of each of the daemon's processes."""
    found: dict[str, int] = {}
    for one in psutil.process_iter(["name", "cmdline", "memory_info"]):
        words = one.info["cmdline"] or ()
        if str(daemon.run) not in words and f"{daemon.run}/sim" not in words:
            continue
        # Helpers have names, and the command line of the process that they are copies of.
        name = "cgpud" if "--worker" in words else "its keeper"
        name = one.info["name"] if one.info["name"].startswith(("cgpud-", "cgpu-sim")) else name
        found[name] = found.get(name, 0) + one.info["memory_info"].rss // 1024
    return found


def _left(daemon: Daemon, files: list[str], before: tuple[int, int]) -> list[str]:
    """Return what is there at the end and was not at the start: what ends late is waited for."""

    def there() -> list[str]:
        said = dict(word.split("=", 1) for word in daemon.read("stat").split())
        found = [f"container {name}" for name in daemon.instances()]
        found += [f"{key}={said[key]}" for key in EMPTY if said[key] != "0"]
        return found + [line for line in daemon.read("0/reserved").splitlines() if line]

    try:
        eventually(lambda: not there(), "nothing is left", 30)
    except AssertionError:
        return there()
    found = [f"file {name} in {daemon.run}" for name in sorted(os.listdir(daemon.run)) if name not in files]
    if daemon.given():
        found.append(f"{daemon.given()} bytes of the card")
    for what, then, now in zip(("descriptors", "threads"), before, held(daemon.pid()), strict=True):
        found += [f"{now - then} {what} of cgpud"] if now > then else []
    return found + [str(path) for path in Path("/sys/fs/cgroup").rglob("soak*")]
