# SPDX-License-Identifier: Apache-2.0
"""Programs that try to keep the daemon from its other work, or to gain by calls that race or never ran."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.attacks.silent import silent_file
from tests.daemon.harness import MIB, Daemon, built, long_id
from tests.daemon.upgrades import LOOKS, SPAWNER
from tests.integration.commands import eventually

ONE = f"gpu=0:{1024 * MIB}"
STALLED = 16  # threads, of each process
WORKERS_SHARE = 4
SYS_IOCTL = 16
CAP_KILL, CAP_SYS_PTRACE = 5, 19  # linux/capability.h
RACING_LIMIT = 3000 * MIB
IN_FLIGHT = 253  # descriptors in one message: SCM_MAX_FD, include/net/scm.h
NOBODY = ("/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@pytest.fixture
def silent(tmp_path: Path) -> Iterator[str]:
    """A file that its file system never reads."""
    with silent_file(tmp_path / "silent") as (path, _):
        yield path


def test_repeated_call_runs_again(daemon: Daemon) -> None:
    """A call that repeats one to the last byte runs again when another thread has undone the first."""
    sliced = daemon.slice(1, ONE, program=built("repeats"))
    steps = [sliced.line(name) for name in ("free ", "other-alloc", "free-again", "alloc ", "other-free")]
    steps += [sliced.line(name) for name in ("alloc-again", "other-free")]
    assert [step.split()[1] for step in steps] == ["status=0x0"] * 7
    sliced.line("done")
    assert daemon.used(sliced) == 0
    sliced.finish()


def in_ioctl(pid: int) -> bool:
    """Tell whether a process waits for the answer to a driver call."""
    return Path(f"/proc/{pid}/syscall").read_text().startswith(f"{SYS_IOCTL} ")


def test_stalled_calls_hold_up_only_their_own(fresh: Daemon, silent: str) -> None:
    """Calls that never end take a bounded share of workers: others are served, also by the next daemon."""
    words, stalling = (str(STALLED), silent), built("stalling")
    hostile = [fresh.slice(seed, ONE, *words, program=stalling) for seed in (1, 2, 3)]
    for one in hostile:
        one.line("stalling")
    # A second listener of the same container has no share of its own: not even its first call is answered.
    # Started sooner, it could take the share of the first, which would never come to print its line.
    second = fresh.slice(1, "", *words, register=False, program=stalling)
    eventually(lambda: in_ioctl(second.process.pid), "it made no call")
    out = fresh.slice(4, ONE, "alloc=1G", "info").finish()
    assert "status=0x0" in out
    assert fresh.status()["engine"]["workers"] <= 3 * WORKERS_SHARE + 4
    pid = fresh.pid()
    assert fresh.command("--stop").returncode == 0
    assert not Path(f"/proc/{pid}").exists()
    fresh.start()
    assert "status=0x0" in fresh.slice(5, ONE, "alloc=1G").finish()
    fresh.crash()
    assert "status=0x0" in fresh.slice(6, ONE, "alloc=1G").finish()


def test_log_cannot_be_filled(fresh: Daemon) -> None:
    """A container that asks for unknown classes in turn gets a few lines of the log, not one per call."""
    began = time.monotonic()
    fresh.slice(1, ONE, *["class=0x7001", "class=0x7002"] * 50).finish()
    fresh.slice(2, ONE, "class=0x7001").finish()
    own = f"container {long_id(2)}: driver class 0x7001 is not known here"
    eventually(lambda: own in fresh.log(), "another container has no lines of its own")
    # Ten and one, and one more for every ten seconds that this took.
    more = 1 + int((time.monotonic() - began) / 10)
    assert 11 <= fresh.log().count("is not known here") <= 11 + more


def test_dead_driver_is_told(fresh: Daemon) -> None:
    """A driver that answers no more shows in the status and once in the log; nothing is registered on it."""
    os.kill(json.loads((fresh.run / "sim.json").read_text())["pid"], signal.SIGKILL)
    eventually(lambda: fresh.status()["driver_error"] is not None, "the status says that all is well")
    with pytest.raises(OSError, match="Input/output error"):
        fresh.write("inst_ctl", f"create id={'a' * 64} pid={os.getpid()} {ONE}")
    fresh.write("inst_ctl", f"destroy id={'a' * 64}")
    assert fresh.log().count("the driver does not answer") == 1


@pytest.mark.parametrize("how", ["dup", "free"])
def test_card_and_charges_agree(daemon: Daemon, how: str) -> None:
    """A handle duplicated while it is being made, or freed while it is given out again, hides nothing."""
    sliced = daemon.slice(1, f"gpu=0:{RACING_LIMIT}", how, program=built("racing"), until="done")
    # The tree has the card's own figure once in a second.
    eventually(lambda: daemon.given() == daemon.used(sliced), "card and charges differ")
    assert daemon.given() <= RACING_LIMIT
    sliced.succeeds()


def lookers(daemon: Daemon, *names: str) -> list[int]:
    """Return the processes of these names that a daemon has for looks."""
    found = psutil.process_iter(["name", "cmdline"])
    return [
        one.pid
        for one in found
        if one.info["name"] in names and str(daemon.run) in (one.info["cmdline"] or ())
    ]


def test_descriptors_of_others_in_flight(fresh: Daemon) -> None:
    """The kernel counts descriptors in flight by user: those of a container's root stop no look."""
    for pid in (fresh.pid(), *lookers(fresh, SPAWNER)):
        _, most = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (IN_FLIGHT - 1, most))
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs, Path(os.devnull).open("rb") as file:
        socket.send_fds(ours, [b"x"], [file.fileno()] * IN_FLIGHT)
        fresh.slice(1, ONE, "alloc=1G").succeeds()


def capabilities(pid: int, kind: str) -> int:
    return int(Path(f"/proc/{pid}/status").read_text().partition(f"{kind}:")[2].split()[0], 16)


def test_rights_of_helpers(fresh: Daemon) -> None:
    """Helpers can see processes, and only one that inspects filters could ever end one."""
    first = fresh.slice(1, ONE, "alloc=1M", "hold", until="alloc")
    eventually(lambda: len(lookers(fresh, LOOKS)) == 1, "an inspection goes on")
    (spawner,), (helper,) = lookers(fresh, SPAWNER), lookers(fresh, LOOKS)
    for pid in (spawner, helper):
        assert capabilities(pid, "CapEff") == 1 << CAP_SYS_PTRACE
    assert capabilities(spawner, "CapPrm") >> CAP_KILL & 1
    assert not capabilities(helper, "CapPrm") >> CAP_KILL & 1
    first.succeeds("\n")


def test_a_new_spawner(fresh: Daemon) -> None:
    """Helpers look at processes of every user, also where a call has had their spawner started anew."""
    for path in (*fresh.run.parents, fresh.run):
        path.chmod(path.stat().st_mode | 0o055)
    first = fresh.slice(1, ONE, "alloc=1M", "hold", until="alloc")
    for pid in lookers(fresh, SPAWNER, LOOKS):
        with suppress(ProcessLookupError):  # a helper ends with its spawner
            os.kill(pid, signal.SIGKILL)
    # A worker has the spawner started anew.
    fresh.slice(2, ONE, "alloc=1M").succeeds()
    fresh.join(first, *NOBODY, *fresh.outside("alloc=1M")).succeeds()
