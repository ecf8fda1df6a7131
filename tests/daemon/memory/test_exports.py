# SPDX-License-Identifier: Apache-2.0
"""Memory that leaves by descriptors stays charged until the last close of the file, by any process."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
from pathlib import Path

import pytest

from cgpu.config.effective import Effective
from cgpu.kmod.daemon.engine import Driver, Engine
from tests.attacks.build import uvm_client, uvm_probe
from tests.daemon.conftest import Hold
from tests.daemon.harness import MIB, Daemon
from tests.integration.commands import eventually

LIMIT = 1024 * MIB
SLICE = f"gpu=0:{LIMIT}"
CARD = 15109 * MIB
FIRST = 100  # the number of the probe's first exported file
SHARE = 256  # files of one container, kmod/daemon/memory/files.h
NO_MEMORY, NO_PERMISSION, NO_RECORDS, INVALID = "expect=0x51", "expect=0x1b", "expect=0x1a", "expect=0x3b"
NOT_SUPPORTED = "expect=0x56"
PIDFD_GETFD = 438


def run(daemon: Daemon, *words: str, seed: int = 1) -> str:
    """Run the probe to its end in a slice of its own; every word must answer as it is expected to."""
    return daemon.slice(seed, SLICE, *words).succeeds()


def copied(process: int, number: int = FIRST) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    pidfd = os.pidfd_open(process)
    fd = int(libc.syscall(PIDFD_GETFD, pidfd, number, 0))
    os.close(pidfd)
    assert fd >= 0, os.strerror(ctypes.get_errno())
    return fd


@pytest.mark.enforcement
def test_memory_of_the_host(daemon: Daemon, holding: Hold) -> None:
    """Memory of the host leaves and comes back at no charge, by the same rules; pinned memory does not."""
    full = [NO_MEMORY, "alloc=64K:64k"]
    moved = ["host=64M", "export", "free", "import", "dup", "close-export", "export", "export=2"]
    run(daemon, "alloc=1G", *moved, *full, "free", "free", "free", "alloc=1G")
    # In one list with memory of the card each stays what it is.
    both = ("alloc=768M", "host=64M", "export=2", "free=all", NO_MEMORY, "alloc=512M", "import=2")
    run(daemon, *both, "close-export", "free", NO_MEMORY, "alloc=512M", "free", "alloc=1G")
    giver = holding(daemon, SLICE, "host=64M", "export", "pin=64K", NOT_SUPPORTED, "export")
    assert (daemon.used(giver), daemon.given()) == (0, 0)
    taking = f"take={giver.process.pid}:{FIRST}"
    run(daemon, taking, NO_PERMISSION, "import", NO_PERMISSION, "import=1", seed=3)
    daemon.enter(giver, "alloc=1G", taking, "import", *full).succeeds()


def test_other_descriptors_are_refused(daemon: Daemon, holding: Hold) -> None:
    """As the driver refuses them: a card's node, no file of the driver, none at all, one open for nothing."""
    holder = holding(daemon, SLICE, "alloc=1M")
    fds = Path(f"/proc/{holder.process.pid}/fd")
    card = next(fd.name for fd in fds.iterdir() if os.readlink(fd).endswith("nvidia0"))
    for number in (card, "1"):
        daemon.enter(holder, f"take={holder.process.pid}:{number}", INVALID, "import").succeeds()
    daemon.enter(holder, INVALID, "import").succeeds()
    path = os.open(daemon.run / "sim" / "nvidiactl", os.O_PATH)
    daemon.enter(holder, f"take={os.getpid()}:{path}", INVALID, "import").succeeds()
    os.close(path)


def test_number_that_is_used_again(daemon: Daemon) -> None:
    """The same call to the last byte, on another file under the same number, is made and not remembered."""
    again = ["export", "close-export"] * 3
    held = ("export", "import", "free=all", NO_MEMORY, "alloc=768M")
    run(daemon, "alloc=512M", *again, *held, "close-export", "alloc=1G")


def test_signals(daemon: Daemon) -> None:
    """Calls that a signal interrupts again and again succeed, and happen once."""
    sliced = daemon.slice(1, SLICE, "export", "150", program=uvm_client("restarted"))
    assert sliced.line("resting") == "resting failed=0\n"
    eventually(lambda: daemon.given() == MIB, "something stayed")
    assert daemon.used(sliced) == MIB
    sliced.finish("\n")


@pytest.mark.enforcement
def test_last_close(daemon: Daemon, holding: Hold) -> None:
    """The charge stays while a process or a socket has the file, and ends without a request."""
    base = holding(daemon, SLICE)
    owner = holding(daemon, SLICE, "alloc=1G", "export", "free", inside=base)
    fd = copied(owner.process.pid)
    one, other = socket.socketpair()
    with one, other:
        owner.kill()
        daemon.enter(base, NO_MEMORY, "alloc=64K:64k").succeeds()
        socket.send_fds(one, [b"x"], [fd])
        os.close(fd)
        daemon.enter(base, NO_MEMORY, "alloc=64K:64k").succeeds()
        assert (daemon.used(base), daemon.given()) == (LIMIT, LIMIT)
    eventually(lambda: (daemon.used(base), daemon.given()) == (0, 0), "it was not given back")


def test_bound(daemon: Daemon, holding: Hold) -> None:
    """One container has so many files watched and no more; others, and it after a close, export."""
    full = holding(daemon, SLICE, "alloc=64K:64k", *["export"] * SHARE, NO_RECORDS, "export")
    daemon.enter(full, "alloc=64K:64k", NO_RECORDS, "export").succeeds()
    run(daemon, "alloc=64K:64k", "export", "free", "import")
    fd = copied(full.process.pid, FIRST)
    daemon.enter(full, f"take={os.getpid()}:{fd}", "import").succeeds()
    os.close(fd)
    full.kill()


def test_closed_files_make_room(daemon: Daemon) -> None:
    """As often as one likes, at once."""
    run(daemon, "alloc=512M", *["export", "close-export"] * (SHARE + 40), "free", "alloc=1G")


def test_restart(fresh: Daemon) -> None:
    """The next engine knows the files: those that are open, and those that were closed meanwhile."""
    base = fresh.slice(1, SLICE, "hold", until="hold")
    owner = fresh.enter(base, *["alloc=256M", "export", "free"] * 4, "count", "hold", until="count")
    kept = [copied(owner.process.pid, FIRST + n) for n in range(4)]
    owner.kill()
    fresh.crash(lambda: os.close(kept.pop()))
    eventually(lambda: fresh.used(base) == 768 * MIB, "what was closed meanwhile stayed, or more went")
    taking = f"take={os.getpid()}:{kept[0]}"
    fresh.enter(base, NO_MEMORY, "alloc=257M", taking, "import", "close-export").succeeds()
    os.close(kept.pop())
    fresh.enter(base, NO_MEMORY, "alloc=513M", "alloc=512M").succeeds()
    for fd in kept:
        os.close(fd)
    fresh.enter(base, "alloc=1G").succeeds()


def stored_state(keeper: int) -> int:
    fds = Path(f"/proc/{keeper}/fd")
    return copied(keeper, next(int(fd.name) for fd in fds.iterdir() if "cgpud-state" in os.readlink(fd)))


def test_lost_watch(fresh: Daemon) -> None:
    """An engine without its watch of the files gives nothing back: their holders are unknown."""
    holder = fresh.slice(
        1, SLICE, "alloc=1G", "export", "free", "close-export", "alloc=512M", "export", "hold"
    )
    holder.line("hold")
    keeper = int(Path(f"/proc/{fresh.pid()}/stat").read_text().rpartition(")")[2].split()[1])
    fresh.command("--stop")
    engine = Engine(Driver(str(fresh.run / "sim")), Effective(), state_fd=stored_state(keeper))
    engine.close()
    fresh.start()
    assert "stays charged for good" not in fresh.log()
    assert fresh.used(holder) == 512 * MIB
    holder.finish("\n")
    eventually(lambda: fresh.instances() == [], "the container stayed")
    assert fresh.given() == 0
    with pytest.raises(OSError, match="memory"):
        fresh.write("inst_ctl", f"create id={'c' * 64} pid={os.getpid()} gpu=0:{CARD}\n")


def test_dma_bufs_are_refused(daemon: Daemon) -> None:
    """No dma-buf is made, whatever is asked for, and the log names each container's refusal once."""
    refused = (f"expect={0x80000000 + errno.EINVAL:#x}", "dmabuf")
    sliced = daemon.slice(5, SLICE, "alloc=1M", *refused * 2, program=uvm_probe())
    sliced.succeeds()
    line = f"container {sliced.id}: driver escape 217 exports a dma-buf"
    eventually(lambda: line in daemon.log(), "the log says nothing")
    assert daemon.log().count(line) == 1
