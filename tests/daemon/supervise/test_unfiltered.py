# SPDX-License-Identifier: Apache-2.0
"""A process that a runtime starts in a container without the engine's filter, as by exec."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cgpu.kmod.daemon.listeners import process_filters
from tests.daemon.conftest import MakeDaemon
from tests.daemon.harness import MIB, PROBE, SLICED, Daemon, Sliced
from tests.integration.commands import eventually

CLONE_NEWPID = 0x20000000  # linux/sched.h; os.unshare and os.setns come with Python 3.12
_LIBC = ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@contextmanager
def children_in(process: int | None) -> Iterator[None]:
    """Have processes that start meanwhile in a new pid namespace, or in that of a process."""
    with Path("/proc/self/ns/pid").open() as own:
        if process is None:
            _check(_LIBC.unshare(CLONE_NEWPID))
        else:
            with Path(f"/proc/{process}/ns/pid").open() as other:
                _check(_LIBC.setns(other.fileno(), CLONE_NEWPID))
        try:
            yield
        finally:
            _check(_LIBC.setns(own.fileno(), CLONE_NEWPID))


# Its child has the engine's very filter; this process answers each call by SECCOMP_USER_NOTIF_FLAG_CONTINUE.
ANSWERS = f"""
import ctypes, os, socket, struct, sys
sys.path.insert(0, {str(SLICED.parent)!r})
import sliced
NOTIF_RECV, NOTIF_SEND, CONTINUE = 0xC0502100, 0xC0182101, 1
ours, theirs = socket.socketpair()
pid = os.fork()
if pid == 0:
    socket.send_fds(theirs, [b"x"], [sliced.install()])
    os.execv(sys.argv[1], sys.argv[1:])
(listener,) = socket.recv_fds(ours, 1, 1)[1]
libc = ctypes.CDLL(None, use_errno=True)
while True:
    call = ctypes.create_string_buffer(80)
    if libc.ioctl(listener, NOTIF_RECV, call) == 0:
        answer = struct.pack("=QqiI", struct.unpack_from("=Q", call)[0], 0, 0, CONTINUE)
        libc.ioctl(listener, NOTIF_SEND, ctypes.create_string_buffer(answer, 24))
    elif os.waitpid(pid, os.WNOHANG)[0]:
        sys.exit()
"""
ROOT = Path("/sys/fs/cgroup")
PLACES = (ROOT, ROOT / "unified", ROOT / "pids")
JOINED = 'echo $$ > "$0" && exec "$@"'


@pytest.fixture
def group() -> Iterator[Path]:
    """Return a control group of its own for a container; skips where none can be made."""
    found = [place for place in PLACES if (place / "cgroup.procs").exists() and place.is_mount()]
    if not found:
        pytest.skip("no hierarchy of control groups is mounted")
    made = found[0] / f"cgpu-unfiltered-{os.getpid()}"
    made.mkdir()
    yield made
    eventually(lambda: not (made / "cgroup.procs").read_text(), "a process stays in the group")
    made.rmdir()


def contained(make_daemon: MakeDaemon, group: Path, config: str = "") -> tuple[Daemon, Sliced]:
    """Start a daemon, and a container in that group that has 64 MiB."""
    daemon = make_daemon(config=config) if config else make_daemon()

    def place(sliced: Sliced) -> None:
        (group / "cgroup.procs").write_text(str(sliced.process.pid))

    daemon.place = place  # type: ignore[method-assign]  # this daemon's containers alone have the group
    with children_in(None):
        sliced = daemon.slice(1, f"gpu=0:{1000 * MIB}", "alloc=64M", "hold")
    sliced.line("alloc")
    return daemon, sliced


def unseen_process(daemon: Daemon, group: Path, *before: str) -> subprocess.Popen[bytes]:
    """Start a process in the group that has memory of the card by calls that cgpud does not see.

    before: a command that starts it.
    """
    words = [*before, str(PROBE), "--dev", str(daemon.run / "sim"), "alloc=2G", "hold=1000"]
    command = ["/bin/sh", "-c", JOINED, str(group / "cgroup.procs"), *words]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL)


def test_others_in_its_group_are_left_alone(make_daemon: MakeDaemon, group: Path) -> None:
    """A process in the container's group that is not in its pid namespace goes on; it is told of."""
    daemon, sliced = contained(make_daemon, group)
    with unseen_process(daemon, group) as unseen:
        try:
            said = f"process {unseen.pid} has memory by calls that were not seen: it is in"
            eventually(lambda: said in daemon.log(), "nothing was said")
            assert unseen.poll() is None
        finally:
            unseen.kill()
    sliced.finish("\n")


@pytest.mark.parametrize("mounts", ["its own", "the container's"])
def test_outside_of_its_group(make_daemon: MakeDaemon, group: Path, mounts: str) -> None:
    """In its pid namespace, and in no group: ended with the container's mounts, left alone with its own.

    The first is an exec that was taken over early, the second another container of the same pod.
    """
    daemon, sliced = contained(make_daemon, group)
    before = ["unshare", "--mount"] if mounts == "its own" else []
    command = [*before, str(PROBE), "--dev", str(daemon.run / "sim"), "alloc=2G", "hold=1000"]
    with children_in(sliced.process.pid):
        started = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    with started as unseen:
        try:
            eventually(lambda: daemon.given() >= 2048 * MIB or unseen.poll() is not None, "it has no memory")
            if mounts == "its own":
                with pytest.raises(subprocess.TimeoutExpired):
                    unseen.wait(4)
            else:
                assert unseen.wait(240) == -signal.SIGKILL
        finally:
            unseen.kill()
    sliced.finish("\n")


def test_it_is_ended(make_daemon: MakeDaemon, group: Path) -> None:
    """An unfiltered process ends as soon as it is seen to have memory of a card; its container goes on."""
    daemon, sliced = contained(make_daemon, group)
    with children_in(sliced.process.pid):
        started = unseen_process(daemon, group)
    with started as unseen:
        try:
            assert unseen.wait(240) == -signal.SIGKILL
        finally:
            unseen.kill()
    said = f"process {unseen.pid} does not have the engine's filter, and was ended"
    eventually(lambda: said in daemon.log(), "nothing was said")
    other = daemon.enter(sliced, "alloc=64M", "count")
    assert "status=0x0" in other.finish()
    assert sliced.process.poll() is None
    sliced.finish("\n")


def test_own_answers(make_daemon: MakeDaemon, group: Path) -> None:
    """A process whose calls another process of its container answers, by a listener of its own, is ended."""
    daemon, sliced = contained(make_daemon, group)
    with children_in(sliced.process.pid):
        started = unseen_process(daemon, group, sys.executable, "-c", ANSWERS)
    with started as unseen:
        try:
            eventually(lambda: daemon.given() >= 2048 * MIB, "it has no memory")
            eventually(lambda: daemon.given() <= 64 * MIB, "it has its memory", instead=daemon.log)
        finally:
            unseen.kill()
    said = "has memory by calls that were not seen, though its filter holds them, and was ended"
    eventually(lambda: said in daemon.log(), "nothing was said")
    assert sliced.process.poll() is None
    sliced.finish("\n")


def test_group_of_any_name(group: Path) -> None:
    """Where a container may make groups, their names are its choice: the daemon reads on."""
    place = group / ("5" * 64)
    inside = place / "\udcff\x85"
    inside.mkdir(parents=True)
    members = inside / "cgroup.procs"
    with subprocess.Popen(["/bin/sh", "-c", JOINED, str(members), "sleep", "1000"]) as process:
        try:
            eventually(lambda: str(process.pid) in members.read_text(), "it joins its group")
            found = process_filters.unregistered("5" * 64, process.pid)
        finally:
            process.kill()
    eventually(lambda: not members.read_text(), "a process stays in the group")
    inside.rmdir()
    place.rmdir()
    assert found is not None
    assert found.cgroup.endswith(f"{group.name}/{place.name}")
