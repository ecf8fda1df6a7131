# SPDX-License-Identifier: Apache-2.0
"""One of both daemons is killed at a step of an upgrade: charges stay, calls wait, the next one ends well."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cgpu.errors import CgpuError
from cgpu.kmod.daemon.program import Program
from tests.daemon import versions
from tests.daemon.harness import MIB, ROOT, Daemon
from tests.daemon.upgrades import Steady, await_one, pids_of, upgrade
from tests.integration.commands import eventually

# Code that the successor runs before all else. The same program started anew is no successor, and goes on.
KILLS = """
import os, select, signal, socket, struct
STEP, WHOM = {step!r}, {whom!r}
OLD = []
def strike(step):
    if step != STEP or not OLD:
        return
    if WHOM != "old":
        os.kill(os.getpid(), signal.SIGKILL)
    pidfd, poll = os.pidfd_open(OLD[0]), select.poll()
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    poll.register(pidfd, select.POLLIN)
    poll.poll()
    os.close(pidfd)
def wrap(cls, name, step):
    inner = getattr(cls, name)
    def outer(self, *rest, **more):
        out = inner(self, *rest, **more)
        strike(step(self, out, *rest) if callable(step) else step)
        return out
    setattr(cls, name, outer)
def received(channel, out, *rest):
    if not OLD:
        peer = channel._sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        OLD.append(struct.unpack("iII", peer)[0])
    return "got " + out[0]["say"]
if "--successor" in sys.argv:
    from cgpu.kmod.daemon import engine
    from cgpu.kmod.daemon.store import stored
    from cgpu.kmod.daemon.tree import tree_fs
    from cgpu.kmod.daemon.upgrade import channel
    wrap(channel.Channel, "receive", received)
    wrap(channel.Channel, "send", lambda self, out, message, *rest: "sent " + message["say"])
    wrap(engine.Engine, "take_over", "copied")
    wrap(stored.Stored, "replace_state", "stored")
    wrap(engine.Engine, "start", "started")
    wrap(tree_fs.TreeMount, "appear", "appeared")
"""
BEFORE = ("got hello", "sent prepared", "got take", "copied")
# Once it was ready, the one before may have named it the daemon: then it is started anew.
AFTER = ("sent ready", "got commit", "stored", "started", "appeared", "sent serving")


def faulty(directory: Path, step: str, whom: str) -> Program:
    return versions.script(directory / "faulty", ROOT, KILLS.format(step=step, whom=whom))


@pytest.mark.parametrize("whom", ["old", "self"])
@pytest.mark.parametrize("step", [*BEFORE, *AFTER])
def test_killed_at_a_step(fresh: Daemon, base: Path, step: str, whom: str) -> None:
    """A death at any step loses no charge and fails no call, and the next upgrade ends well."""
    sliced = fresh.slice(1, f"gpu=0:{4096 * MIB}", "alloc=1G", "hold", "alloc=1G", "alloc=3G", "count")
    sliced.line("alloc")
    load = Steady(fresh, 2, f"gpu=0:{512 * MIB}", 1000)
    before = fresh.pid()
    try:
        upgrade(fresh, faulty(base, step, whom))
    except CgpuError as error:
        assert "\n" not in str(error)  # noqa: PT017, some faults are survived, and raise nothing
    after = await_one(fresh)
    if whom == "old":
        assert after != before
        # Once it is the daemon, the death of the one before is nothing to it.
        assert ("does not take over" in fresh.log()) == (step in (*BEFORE, "sent ready"))
    elif step in BEFORE:
        assert after == before
    # The tree of the one before may still have been there, and the next one's comes after it.
    meminfo = fresh.tree / "0" / sliced.id[:12] / "meminfo"
    eventually(lambda: os.path.exists(meminfo), "the slice is in the tree")
    assert fresh.used(sliced) == 1024 * MIB
    assert load.look().failed == 0
    assert upgrade(fresh)["done"]
    await_one(fresh)
    assert fresh.used(sliced) == 1024 * MIB
    figures = load.look()
    assert figures.failed == 0
    assert figures.calls > 0
    out = sliced.finish("\n")
    assert "bytes=2147483648 " in out
    assert "alloc 3221225472 size=3221225472 offset=0 limit=0" in out
    assert not (fresh.run / "next-tree").exists()


def test_asker_may_die(fresh: Daemon) -> None:
    """An upgrade comes to its end without its asker."""
    before = fresh.pid()
    asker = os.fork()
    if asker == 0:
        try:
            upgrade(fresh)
        finally:
            os._exit(0)
    eventually(lambda: len(pids_of(fresh)) > 1, "the successor is started")
    os.kill(asker, 9)
    os.waitpid(asker, 0)
    eventually(lambda: fresh.pid() != before, "the successor is the daemon")
    await_one(fresh)
    assert fresh.read("version") == "0.1.0\n"
    assert upgrade(fresh)["done"]
