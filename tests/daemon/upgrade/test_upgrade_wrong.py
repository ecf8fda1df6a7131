# SPDX-License-Identifier: Apache-2.0
"""Successors that lie, fall silent or send unasked messages; orders in the middle; and remains."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import socket
import subprocess
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cgpu.errors import CgpuError
from cgpu.kmod.daemon.program import Program
from cgpu.kmod.daemon.tree import mounts
from cgpu.kmod.daemon.upgrade.channel import MAX_FDS, Channel, ChannelError
from tests.daemon import versions
from tests.daemon.conftest import MakeDaemon
from tests.daemon.harness import MIB, ROOT, Daemon, serving
from tests.daemon.upgrades import Steady, await_one, held, pids_of, upgrade
from tests.integration.commands import eventually

# Sends each message by hand, also those that cgpud would check before.
SPEAKS = """
import array, json, os, socket, sys, time
if "--successor" not in sys.argv: sys.exit(1)
channel = socket.socket(fileno=int(sys.argv[sys.argv.index("--successor") + 1]))
def send(fds=(), **message):
    socket.send_fds(channel, [json.dumps(message).encode()], fds)
def ready(**more):
    send(**{{"say": "prepared", "pid": os.getpid(), "version": "9", **more}})
{lines}
time.sleep(60)
"""
# By its name: its code, and the daemon's words about it.
WRONG = {
    "names another": (
        "import subprocess; ready(pid=int(open({victim!r}).read()))",
        r"process \d+ says that it is \d+",
    ),
    "is ready twice": ("ready(); ready()", "it says twice that it is ready|ready was expected: prepared"),
    "babbles": ('channel.send(b"[" * 60000)', "a message is not understood"),
    "is no object": ("channel.send(b'[1]')", "a message is not understood"),
    "sends files": (
        "r = os.open('/dev/null', os.O_RDONLY); send([r] * 100, say='hello')",
        "prepared was expected: hello",
    ),
    "sends too many files": (
        "r = os.open('/dev/null', os.O_RDONLY); send([r] * 250, say='prepared')",
        "a message is not understood",
    ),
    "takes nothing": ("ready()", "has not answered within 2 s"),
    "takes and says another thing": (
        "ready(); channel.recv(1 << 17); channel.recv(1 << 17); send(say='serving')",
        "ready was expected: serving",
    ),
    "speaks in lines": (
        r"ready(); channel.recv(1 << 17); channel.recv(1 << 17); send(say='refused', why='a\nb')",
        r"^a\\nb; cgpud .* goes on$",
    ),
}
# Waits at a step of the hand-over for a file; the rest is cgpud.
WAITS = """
import os, time
if "--successor" in sys.argv:
    import cgpu.kmod.daemon.{module} as where
    inner = where.{name}
    def slowly(*rest, **more):
        open({mark!r}, "w").close()
        while not os.path.exists({mark!r} + "-go"):
            time.sleep(0.01)
        return inner(*rest, **more)
    where.{name} = slowly
"""


@pytest.fixture(scope="module")
def served() -> Iterator[Daemon]:
    """A daemon that none of the wrong ones follows."""
    with serving(Daemon) as running:
        yield running


@pytest.mark.parametrize("name", WRONG)
def test_wrong_successor(served: Daemon, base: Path, name: str) -> None:
    """A wrong successor alone is ended, with one line; no call fails, and nothing of it is left."""
    lines, why = WRONG[name]
    victim = subprocess.Popen(["/bin/sleep", "600"])
    (base / "victim").write_text(str(victim.pid))
    program = base / "wrong"
    body = SPEAKS.format(lines=textwrap.dedent(lines.replace("{victim!r}", repr(str(base / "victim")))))
    program.write_text(f"#!/usr/bin/python3 -I\n{body}")
    program.chmod(0o755)
    pid = served.pid()
    before = held(pid)
    load = Steady(served, 2, f"gpu=0:{64 * MIB}", 1000)
    try:
        with pytest.raises(CgpuError, match=why) as refused:
            upgrade(served, Program((str(program),)))
        assert "\n" not in str(refused.value)
        assert served.pid() == pid
        assert load.look().failed == 0
        assert victim.poll() is None
    finally:
        for one in (victim, load.sliced.process):
            one.kill()
            one.communicate()
    assert mounts.mounted(str(served.run / "next-tree")) == []
    eventually(lambda: held(pid)[0] <= before[0] + 1, f"descriptors stay: {before} {held(pid)}")
    eventually(lambda: not program_runs(program), "the wrong one is ended")


def program_runs(program: Path) -> bool:
    """Tell whether a process of this program is left, which has a command line until it has ended."""
    return any(str(program) in (one.info["cmdline"] or ()) for one in psutil.process_iter(["cmdline"]))


def asked(daemon: Daemon, program: Program) -> int:
    """Ask for an upgrade in a process of its own; return that one's number."""
    asker = os.fork()
    if asker == 0:
        try:
            upgrade(daemon, program)
        finally:
            os._exit(0)
    return asker


def waiting(base: Path, module: str, name: str) -> tuple[Program, Path]:
    """Make a cgpud that waits at a step of the hand-over; return it with the file that it makes there."""
    mark = base / "mark"
    return versions.script(base / "slow", ROOT, WAITS.format(module=module, name=name, mark=str(mark))), mark


def go_on(mark: Path) -> None:
    """Let one go on that waits at its step."""
    mark.with_name("mark-go").touch()


@pytest.mark.parametrize(
    ("module", "name"),
    [("engine.Engine", "take_over"), ("tree.tree_fs.TreeMount", "appear")],
    ids=["before", "after"],
)
def test_told_to_end_in_the_middle(fresh: Daemon, base: Path, module: str, name: str) -> None:
    """A daemon told to end during a takeover ends, or has the successor end; charges stay."""
    sliced = fresh.slice(1, f"gpu=0:{1024 * MIB}", "alloc=512M", "hold", until="alloc")
    file, _, cls = module.rpartition(".")
    slow, mark = waiting(base, file, f"{cls}.{name}")
    before = fresh.pid()
    asker = asked(fresh, slow)
    eventually(mark.exists, "the successor is at that step")
    os.kill(before, signal.SIGTERM)
    go_on(mark)
    eventually(lambda: pids_of(fresh) == [], f"all end: {fresh.log()}")
    os.kill(asker, signal.SIGKILL)
    os.waitpid(asker, 0)
    fresh.start()
    await_one(fresh)
    assert fresh.used(sliced) == 512 * MIB
    assert sliced.process.poll() is None


def test_a_change_of_the_configuration_is_not_lost(make_daemon: MakeDaemon, base: Path) -> None:
    """A change after the successor has read the configuration is in force when it serves."""
    daemon = make_daemon("T4", "default_memsize: 1048576\n")
    slow, mark = waiting(base, "tree.tree_fs", "TreeMount.start")
    asker = asked(daemon, slow)
    before = daemon.pid()
    eventually(mark.exists, "the successor is at that step")
    (base / "config.yaml").write_text("default_memsize: 2097152\n")
    os.kill(before, signal.SIGHUP)
    eventually(lambda: "configuration reloaded" in daemon.log(), "the daemon has the change")
    go_on(mark)
    eventually(lambda: daemon.pid() != before, "the successor is the daemon")
    os.waitpid(asker, 0)
    eventually(lambda: daemon.read("default_memsize") == "2097152\n", "the change is in force")


def fill(channel: Channel) -> None:
    """Send more than anybody reads."""
    for _ in range(100):
        channel.send({"say": "x" * 60000})


def test_descriptors_of_any_number() -> None:
    """A daemon with thousands of descriptors can speak to its successor; files come whole."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    high = socket.socket(fileno=fcntl.fcntl(theirs.fileno(), fcntl.F_DUPFD_CLOEXEC, 3000))
    one, other = Channel(ours), Channel(high)
    try:
        other.send({"say": "take"}, [0] * MAX_FDS)
        message, fds = one.receive(5.0)
        assert (message, len(fds), one.sender) == ({"say": "take"}, MAX_FDS, os.getpid())
        assert not any(os.get_inheritable(fd) for fd in fds)
        for fd in fds:
            os.close(fd)
        with pytest.raises(ChannelError, match="has not answered"):
            other.receive(0.01)
        with pytest.raises(ChannelError, match="has not read for 2 s"):
            fill(other)
    finally:
        one.close()
        other.close()
        theirs.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
