# SPDX-License-Identifier: Apache-2.0
"""A program dies at a step of an upgrade: charges stay, calls wait, the next upgrade ends well."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path

import pytest

from cgpu.errors import CgpuError
from cgpu.kmod.daemon import control
from cgpu.kmod.daemon.program import Program, own
from tests.daemon import versions
from tests.daemon.harness import MIB, ROOT, Daemon
from tests.daemon.upgrades import Steady, await_one, upgrade
from tests.integration.commands import eventually

# Code that the next program runs before all else. The same program started anew follows none, and goes on.
KILLS = """
import os, signal, sys
STEP = {step!r}
def strike(step):
    if step == STEP:
        os.kill(os.getpid(), signal.SIGKILL)
def wrap(cls, name, step):
    inner = getattr(cls, name)
    def outer(*rest, **more):
        out = inner(*rest, **more)
        strike(step)
        return out
    setattr(cls, name, outer)
if "--rehearse" in sys.argv:
    strike("rehearsal begins")
    from cgpu.kmod.daemon import engine
    wrap(engine.Engine, "close", "rehearsal ends")
elif "CGPU_UPGRADE" in os.environ:
    strike("begins")
    from cgpu.kmod.daemon import engine, service
    from cgpu.kmod.daemon.tree import tree_fs
    wrap(engine.Engine, "__init__", "engine is open")
    wrap(engine.Engine, "attach", "a listener is attached")
    wrap(tree_fs.TreeMount, "start", "tree is mounted")
    wrap(tree_fs.TreeMount, "appear", "tree is there")
    wrap(engine.Engine, "start", "calls go on")
    wrap(service.Service, "_publish", "files are written")
"""
REHEARSAL = ("rehearsal begins", "rehearsal ends")
STEPS = (
    *("begins", "engine is open", "a listener is attached", "tree is mounted", "tree is there"),
    *("calls go on", "files are written"),
)


def faulty(directory: Path, step: str) -> Program:
    return versions.script(directory / "faulty", ROOT, KILLS.format(step=step))


@pytest.mark.parametrize("step", [*REHEARSAL, *STEPS])
def test_killed_at_a_step(fresh: Daemon, base: Path, step: str) -> None:
    """A death at any step loses no charge and fails no call, and the next upgrade ends well.

    One in the rehearsal changes nothing; after another one the keeper starts the program from before.
    """
    sliced = fresh.slice(1, f"gpu=0:{4096 * MIB}", "alloc=1G", "hold", "alloc=1G", "alloc=3G", "count")
    sliced.line("alloc")
    load = Steady(fresh, 2, f"gpu=0:{512 * MIB}", 1000)
    before = fresh.pid()
    with pytest.raises(CgpuError, match=r"^[^\n]*(before it was ready|started anew)[^\n]*$"):
        upgrade(fresh, faulty(base, step))
    assert (await_one(fresh) == before) == (step in REHEARSAL)
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
    request = {"command": "upgrade", "number": "1", **asdict(own())}
    answer = control.ask(str(fresh.run / "control.sock"), request)
    assert answer is not None
    assert answer["ok"]
    eventually(lambda: (fresh.status()["upgrade"] or {}).get("done"), "the next program serves")
    assert upgrade(fresh)["done"]
