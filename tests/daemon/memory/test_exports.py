# SPDX-License-Identifier: Apache-2.0
"""Memory that leaves by descriptors stays charged until the last close of the file, whoever makes that."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE

import pytest

from cgpu.kmod.daemon.engine import Engine, Options, Settings
from tests.attacks.build import uvm_probe
from tests.daemon.harness import MIB, PROBE, Daemon, Sliced, built
from tests.integration.commands import eventually

pytestmark = pytest.mark.root

LIMIT = 1024 * MIB
SLICE = f"gpu=0:{LIMIT}"
CARD = 15109 * MIB
FIRST = 100  # the number of the probe's first exported file
SHARE = 256  # files of one container, kmod/daemon/memory/files.h
NO_MEMORY, NO_PERMISSION, NO_RECORDS, INVALID = "expect=0x51", "expect=0x1b", "expect=0x1a", "expect=0x3b"
NOT_SUPPORTED = "expect=0x56"
PIDFD_GETFD = 438
MakeDaemon = Callable[..., Daemon]


def run(daemon: Daemon, *words: str, seed: int = 1) -> str:
    """Run the probe to its end in a slice of its own; every word must answer as it is expected to."""
    sliced = daemon.slice(seed, SLICE, *words)
    out = sliced.finish()
    assert sliced.process.returncode == 0, out
    return out


def enter(daemon: Daemon, other: Sliced, *words: str) -> str:
    """The same in the slice of another."""
    sliced = daemon.enter(other, *words)
    out = sliced.finish()
    assert sliced.process.returncode == 0, out
    return out


def taken(daemon: Daemon) -> int:
    """Return what the first card has given, as one hears it outside of all slices."""
    printed = subprocess.run(outside(daemon, "info"), capture_output=True, text=True, check=True).stdout
    found = re.search(r"used=(\d+)", printed)
    assert found is not None, printed
    return int(found[1])


def outside(daemon: Daemon, *words: str) -> list[str]:
    """Return the command that runs the probe in no slice."""
    return [str(PROBE), "--dev", str(daemon.run / "sim"), *words]


def copied(process: int, number: int = FIRST) -> int:
    """Return a copy of a process's descriptor."""
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd = os.pidfd_open(process)
    fd = int(libc.syscall(PIDFD_GETFD, pidfd, number, 0))
    os.close(pidfd)
    assert fd >= 0, os.strerror(ctypes.get_errno())
    return fd


@pytest.fixture
def holding(daemon: Daemon) -> Iterator[Callable[..., Sliced]]:
    """Return what starts the probe in a slice and waits until it holds what it has."""
    held: list[Sliced] = []

    def start(*words: str, seed: int = 2, inside: Sliced | None = None) -> Sliced:
        words = (*words, "count", "hold")
        held.append(daemon.enter(inside, *words) if inside else daemon.slice(seed, SLICE, *words))
        held[-1].line("count")
        return held[-1]

    yield start
    for sliced in held:
        sliced.finish("\n")


@pytest.mark.enforcement
@pytest.mark.parametrize("form", ["", "=1"])
def test_exports_are_charged(daemon: Daemon, form: str) -> None:
    """What is exported stays charged until its descriptor is closed, and imports until they are freed."""
    words = ["alloc=768M", f"export{form}", "free", NO_MEMORY, "alloc=512M", f"import{form}", "close-export"]
    run(daemon, *words, NO_MEMORY, "alloc=512M", "free", "alloc=512M", "alloc=512M")


@pytest.mark.enforcement
def test_export_and_free_gives_no_more(daemon: Daemon, holding: Callable[..., Sliced]) -> None:
    """Exported and freed again and again, all of it stays charged: the card gives the slice and no more."""
    words = ["alloc=256M", "export", "free"] * 4
    holder = holding(*words, NO_MEMORY, "alloc=64K:64k")
    assert (daemon.used(holder), taken(daemon)) == (LIMIT, LIMIT)


def test_lists_have_places(daemon: Daemon) -> None:
    """Several at once are charged once each, and so are their imports."""
    words = ["alloc=256M"] * 4 + ["export=4", "free=all", NO_MEMORY, "alloc=64K:64k", "import=4"]
    run(daemon, *words, "close-export", NO_MEMORY, "alloc=64K:64k", "free", "alloc=256M")


def test_imports_are_charged_once(daemon: Daemon, holding: Callable[..., Sliced]) -> None:
    """Another process of the container imports at no cost, and holds what the first one no longer has."""
    base = holding()
    first = holding("alloc=1G", "export", inside=base)
    second = holding(f"take={first.process.pid}:{FIRST}", "import", "close-export", inside=base)
    assert daemon.used(base) == LIMIT
    first.process.kill()
    first.process.wait()
    enter(daemon, base, NO_MEMORY, "alloc=64K:64k")
    assert (daemon.used(base), taken(daemon)) == (LIMIT, LIMIT)
    second.process.kill()
    second.process.wait()
    eventually(lambda: taken(daemon) == 0, "it was not given back")


@pytest.mark.enforcement
def test_memory_of_the_host(daemon: Daemon, holding: Callable[..., Sliced]) -> None:
    """It leaves and comes back at no charge, below the same rules; what is pinned does not leave."""
    full = [NO_MEMORY, "alloc=64K:64k"]
    moved = ["host=64M", "export", "free", "import", "dup", "close-export", "export", "export=2"]
    run(daemon, "alloc=1G", *moved, *full, "free", "free", "free", "alloc=1G")
    giver = holding("host=64M", "export", "pin=64K", NOT_SUPPORTED, "export")
    assert (daemon.used(giver), taken(daemon)) == (0, 0)
    taking = f"take={giver.process.pid}:{FIRST}"
    run(daemon, taking, NO_PERMISSION, "import", NO_PERMISSION, "import=1", seed=3)
    enter(daemon, giver, "alloc=1G", taking, "import", *full)


@pytest.mark.enforcement
def test_memory_of_card_and_host_together(daemon: Daemon) -> None:
    """In one list each stays what it is: the one charged until it is freed, the other never."""
    words = ["alloc=768M", "host=64M", "export=2", "free=all", NO_MEMORY, "alloc=512M", "import=2"]
    words += ["close-export", "free", NO_MEMORY, "alloc=512M", "free", "alloc=1G"]
    run(daemon, *words)


@pytest.mark.enforcement
def test_exports_stay_in_their_container(daemon: Daemon, holding: Callable[..., Sliced]) -> None:
    """Another container imports nothing of it; nothing comes in from outside."""
    giver = holding("alloc=512M", "export=1")
    other = holding("alloc=1M", seed=3)
    enter(
        daemon, other, f"take={giver.process.pid}:{FIRST}", NO_PERMISSION, "import", NO_PERMISSION, "import=1"
    )
    line = outside(daemon, "alloc=1M", "export", "hold")
    stranger = Sliced(subprocess.Popen(line, stdin=PIPE, stdout=PIPE, text=True), "")
    stranger.line("hold")
    enter(daemon, other, f"take={stranger.process.pid}:{FIRST}", NO_PERMISSION, "import")
    stranger.finish()


def test_other_descriptors_are_refused(daemon: Daemon, holding: Callable[..., Sliced]) -> None:
    """As the driver refuses them: a card's node, no file of the driver, none at all, one open for nothing."""
    holder = holding("alloc=1M")
    fds = Path(f"/proc/{holder.process.pid}/fd")
    card = next(fd.name for fd in fds.iterdir() if os.readlink(fd).endswith("nvidia0"))
    for number in (card, "1"):
        enter(daemon, holder, f"take={holder.process.pid}:{number}", INVALID, "import")
    enter(daemon, holder, INVALID, "import")
    path = os.open(daemon.run / "sim" / "nvidiactl", os.O_PATH)
    enter(daemon, holder, f"take={os.getpid()}:{path}", INVALID, "import")
    os.close(path)


def test_number_that_is_used_again(daemon: Daemon) -> None:
    """The same call to the last byte, on another file under the same number, is made and not remembered."""
    again = ["export", "close-export"] * 3
    run(
        daemon,
        "alloc=512M",
        *again,
        "export",
        "import",
        "free=all",
        NO_MEMORY,
        "alloc=768M",
        "close-export",
        "alloc=1G",
    )


def test_signals(daemon: Daemon) -> None:
    """Calls that a signal interrupts again and again succeed, and happen once."""
    sliced = daemon.slice(1, SLICE, "150", program=built("exporting"))
    assert sliced.line("done") == "done failed=0\n"
    eventually(lambda: taken(daemon) == MIB, "something stayed")
    assert daemon.used(sliced) == MIB
    sliced.finish("\n")


@contextlib.contextmanager
def parked(fd: int, where: str) -> Iterator[None]:
    """Keep a file's last descriptor: here, in a program that inherited it, or in a socket nobody reads."""
    if where == "here":
        yield
        os.close(fd)
    elif where == "program":
        with subprocess.Popen(["/bin/sleep", "1000"], pass_fds=[fd]) as process:
            os.close(fd)
            yield
            process.kill()
    else:
        ends = socket.socketpair()
        with ends[0], ends[1]:
            socket.send_fds(ends[0], [b"x"], [fd])
            os.close(fd)
            yield


@pytest.mark.parametrize("where", ["here", "program", "socket"])
def test_last_close(daemon: Daemon, holding: Callable[..., Sliced], where: str) -> None:
    """The charge stays while anybody has the file: a process outside, its child, or nobody but a socket."""
    base = holding()
    owner = holding("alloc=1G", "export", "free", inside=base)
    with parked(copied(owner.process.pid), where):
        owner.process.kill()
        owner.process.wait()
        enter(daemon, base, NO_MEMORY, "alloc=64K:64k")
        assert (daemon.used(base), taken(daemon)) == (LIMIT, LIMIT)
    enter(daemon, base, "alloc=1G")
    eventually(lambda: taken(daemon) == 0, "it was not given back")


def test_idle_container_gets_it_back(daemon: Daemon, holding: Callable[..., Sliced]) -> None:
    """The ledger is right a moment after the last close, also when nobody asks for memory."""
    base = holding()
    owner = holding("alloc=512M", "export", "free", inside=base)
    kept = copied(owner.process.pid)
    owner.process.kill()
    owner.process.wait()
    assert daemon.used(base) == 512 * MIB
    os.close(kept)
    eventually(lambda: daemon.used(base) == 0, "it stayed charged")


def test_what_outlives_its_container_is_promised_to_nobody(daemon: Daemon) -> None:
    """Beyond its container's end it counts against the card, until the last close."""
    owner = daemon.slice(4, SLICE, "alloc=1G", "export", "count", "hold")
    owner.line("count")
    kept = copied(owner.process.pid)
    owner.finish("\n")
    eventually(lambda: not daemon.is_registered(owner.id), "the container stayed")
    whole = f"create id={'c' * 64} pid={os.getpid()} gpu=0:{CARD}\n"
    with pytest.raises(OSError, match="memory"):
        daemon.write("inst_ctl", whole)
    os.close(kept)
    daemon.write("inst_ctl", whole)
    daemon.write("inst_ctl", f"destroy id={'c' * 64}\n")


def test_bound(daemon: Daemon, holding: Callable[..., Sliced]) -> None:
    """One container has so many files watched and no more; others, and it after a close, export."""
    full = holding("alloc=64K:64k", *["export"] * SHARE, NO_RECORDS, "export")
    enter(daemon, full, "alloc=64K:64k", NO_RECORDS, "export")
    run(daemon, "alloc=64K:64k", "export", "free", "import")
    fd = copied(full.process.pid, FIRST)
    enter(daemon, full, f"take={os.getpid()}:{fd}", "import")
    os.close(fd)
    full.process.kill()
    full.process.wait()


def test_closed_files_make_room(daemon: Daemon) -> None:
    """As often as one likes, at once."""
    run(daemon, "alloc=512M", *["export", "close-export"] * (SHARE + 40), "free", "alloc=1G")


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_restart(make_daemon: MakeDaemon, how: str) -> None:
    """The next engine knows the files: those that are open, and those that were closed meanwhile."""
    daemon = make_daemon()
    base = daemon.slice(1, SLICE, "hold")
    base.line("hold")
    owner = daemon.enter(base, *["alloc=256M", "export", "free"] * 4, "count", "hold")
    owner.line("count")
    kept = [copied(owner.process.pid, FIRST + n) for n in range(4)]
    owner.process.kill()
    owner.process.wait()
    pid = daemon.pid()
    if how == "kill":
        os.kill(pid, signal.SIGKILL)
        os.close(kept.pop())
        eventually(lambda: restarted(daemon, pid), "no new engine came")
    else:
        daemon.command("--stop")
        os.close(kept.pop())
        daemon.start()
    eventually(lambda: daemon.used(base) == 768 * MIB, "what was closed meanwhile stayed, or more went")
    enter(daemon, base, NO_MEMORY, "alloc=257M", f"take={os.getpid()}:{kept[0]}", "import", "close-export")
    os.close(kept.pop())
    enter(daemon, base, NO_MEMORY, "alloc=513M", "alloc=512M")
    for fd in kept:
        os.close(fd)
    enter(daemon, base, "alloc=1G")


def restarted(daemon: Daemon, before: int) -> bool:
    """Tell whether another engine is there."""
    with contextlib.suppress(OSError, ValueError):
        return daemon.pid() != before and (daemon.tree / "version").exists()
    return False


def stored_state(keeper: int) -> int:
    """Return a copy of the state that a keeper holds."""
    fds = Path(f"/proc/{keeper}/fd")
    return copied(keeper, next(int(fd.name) for fd in fds.iterdir() if "cgpud-state" in os.readlink(fd)))


def test_lost_watch(make_daemon: MakeDaemon) -> None:
    """An engine that does not get what watched the files gives nothing back: nobody knows who has them."""
    daemon = make_daemon()
    holder = daemon.slice(
        1, SLICE, "alloc=1G", "export", "free", "close-export", "alloc=512M", "export", "hold"
    )
    holder.line("hold")
    keeper = int(Path(f"/proc/{daemon.pid()}/stat").read_text().rpartition(")")[2].split()[1])
    daemon.command("--stop")
    options = Options(str(daemon.run / "sim"), Settings(version="0"), state_fd=stored_state(keeper))
    engine = Engine(options)
    engine.close()
    daemon.start()
    assert "stays charged for good" not in daemon.log()
    assert daemon.used(holder) == 512 * MIB
    holder.finish("\n")
    eventually(lambda: daemon.instances() == [], "the container stayed")
    assert taken(daemon) == 0
    with pytest.raises(OSError, match="memory"):
        daemon.write("inst_ctl", f"create id={'c' * 64} pid={os.getpid()} gpu=0:{CARD}\n")


def test_dma_bufs_are_refused(daemon: Daemon) -> None:
    """None is made, whatever is asked for, and the log says once of each container what was refused."""
    refused = (f"expect={0x80000000 + errno.EINVAL:#x}", "dmabuf")
    sliced = daemon.slice(5, SLICE, "alloc=1M", *refused * 2, program=uvm_probe())
    out = sliced.finish()
    assert sliced.process.returncode == 0, out
    line = f"container {sliced.id}: driver escape 217 exports a dma-buf"
    eventually(lambda: line in daemon.log(), "the log says nothing")
    assert daemon.log().count(line) == 1


def test_without_enforcement_it_is_only_counted(make_daemon: MakeDaemon) -> None:
    """enforce: false refuses nothing, and counts."""
    daemon = make_daemon(config="enforce: false\n")
    holder = daemon.slice(1, SLICE, "alloc=1G", "export", "free", "alloc=1G", "count", "hold")
    holder.line("count")
    assert daemon.used(holder) >= LIMIT
    holder.finish("\n")
    assert holder.process.returncode == 0
