# SPDX-License-Identifier: Apache-2.0
"""Programs that lie, and orders in the middle of an upgrade."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from cgpu.errors import CgpuError
from cgpu.kmod.daemon.program import Program
from cgpu.kmod.daemon.tree import mounts
from tests.attacks.silent import silent_file
from tests.daemon import versions
from tests.daemon.conftest import MakeDaemon
from tests.daemon.harness import MIB, ROOT, Daemon, built, serving
from tests.daemon.upgrades import Steady, await_one, held, pids_of, upgrade
from tests.integration.commands import eventually

# By its name: its code, and the daemon's words about it.
WRONG = {
    "says nothing": ("sys.exit(3)", r"wrong: ended with status 3 before it was ready; cgpud .* goes on$"),
    "says much": (
        "for _ in range(1000): print('x' * 10000)\nsys.exit('cgpud: the last\tline')",
        r"^the last\\tline; cgpud .* goes on$",
    ),
}
# Waits at a step of its start for a file; the rest is cgpud.
WAITS = """
import os, sys, time
if {begins!r} in (*sys.argv, *os.environ):
    from cgpu.kmod.daemon.engine import Engine
    inner = Engine.{name}
    def slowly(*rest, **more):
        open({mark!r}, "w").close()
        while not os.path.exists({mark!r} + "-go"):
            time.sleep(0.01)
        return inner(*rest, **more)
    Engine.{name} = slowly
"""
# By when it waits: in what, and in which function of the engine.
MOMENTS = {"before": ("--rehearse", "close"), "after": ("CGPU_UPGRADE", "start")}


@pytest.fixture(scope="module")
def served() -> Iterator[Daemon]:
    """A daemon that none of the wrong ones follows."""
    with serving(Daemon) as running:
        yield running


@pytest.mark.parametrize("name", WRONG)
def test_wrong_rehearsal(served: Daemon, base: Path, name: str) -> None:
    """A wrong program is refused in one line; no call fails, and the daemon has nothing of it."""
    lines, why = WRONG[name]
    program = base / "wrong"
    program.write_text(f"#!/usr/bin/python3 -I\nimport os, sys, time\n{lines}\n")
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
    finally:
        load.sliced.process.kill()
        load.sliced.process.communicate()
    eventually(lambda: held(pid)[0] <= before[0] + 1, f"descriptors stay: {before} {held(pid)}")


def test_no_daemon_after_a_good_rehearsal(fresh: Daemon, base: Path) -> None:
    """A program that says that it is ready and then is none is followed by the one before, from the store."""
    sliced = fresh.slice(1, f"gpu=0:{1024 * MIB}", "alloc=512M", "hold", "alloc=1M", until="alloc")
    program = base / "liar"
    program.write_text("#!/usr/bin/python3 -I\nprint('9')\n")
    program.chmod(0o755)
    before = fresh.pid()
    with pytest.raises(CgpuError, match=r"^cgpud died during the upgrade and was started anew: version 0\.1"):
        upgrade(fresh, Program((str(program),)))
    assert await_one(fresh) != before
    assert fresh.used(sliced) == 512 * MIB
    assert "alloc 1048576 size=1048576" in sliced.finish("\n")


def asked(daemon: Daemon, program: Program) -> int:
    """Ask for an upgrade in a process of its own; return that one's number."""
    asker = os.fork()
    if asker == 0:
        try:
            upgrade(daemon, program)
        finally:
            os._exit(0)
    return asker


def waiting(base: Path, moment: str) -> tuple[Program, Path]:
    """Make a cgpud that waits at a moment of an upgrade; return it with the file that it makes there."""
    mark = base / "mark"
    begins, name = MOMENTS[moment]
    lines = WAITS.format(begins=begins, name=name, mark=str(mark))
    return versions.script(base / "slow", ROOT, lines), mark


def go_on(mark: Path) -> None:
    """Let one go on that waits at its step."""
    mark.with_name("mark-go").touch()


@pytest.mark.parametrize("moment", MOMENTS)
def test_told_to_end_in_the_middle(fresh: Daemon, base: Path, moment: str) -> None:
    """A daemon told to end during an upgrade ends in good order, as whichever program; charges stay."""
    sliced = fresh.slice(1, f"gpu=0:{1024 * MIB}", "alloc=512M", "hold", until="alloc")
    slow, mark = waiting(base, moment)
    asker = asked(fresh, slow)
    eventually(mark.exists, "the next program is at that step")
    os.kill(fresh.pid(), signal.SIGTERM)
    go_on(mark)
    eventually(lambda: pids_of(fresh) == [], f"all end: {fresh.log()}")
    assert fresh.log().count("wait for the next start") == 1
    os.kill(asker, signal.SIGKILL)
    os.waitpid(asker, 0)
    assert mounts.mounted(str(fresh.tree)) == []
    fresh.start()
    await_one(fresh)
    assert fresh.used(sliced) == 512 * MIB
    assert sliced.process.poll() is None


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_change_of_the_configuration_is_not_lost(make_daemon: MakeDaemon, base: Path, moment: str) -> None:
    """A change after the next program has read the configuration is in force when it serves."""
    daemon = make_daemon("T4", "default_memsize: 1048576\n")
    slow, mark = waiting(base, moment)
    asker = asked(daemon, slow)
    eventually(mark.exists, "the next program is at that step")
    (base / "config.yaml").write_text("default_memsize: 2097152\n")
    os.kill(daemon.pid(), signal.SIGHUP)
    go_on(mark)
    os.waitpid(asker, 0)
    eventually(lambda: daemon.read("default_memsize") == "2097152\n", "the change is in force")


def test_the_file_is_in_force_after_an_upgrade(make_daemon: MakeDaemon, base: Path) -> None:
    """What the file says since the last reload is in force as after a restart."""
    daemon = make_daemon("T4", "default_memsize: 1048576\n")
    (base / "config.yaml").write_text("default_memsize: 2097152\n")
    upgrade(daemon)
    eventually(lambda: daemon.read("default_memsize") == "2097152\n", "the change is in force")


def test_a_call_that_stalls(fresh: Daemon, tmp_path: Path) -> None:
    """A call whose arguments cannot be read keeps no upgrade waiting, and waits on; the others' go on."""
    load = Steady(fresh, 2, f"gpu=0:{64 * MIB}", 1000)
    with silent_file(tmp_path / "silent") as (path, _):
        stalled = fresh.slice(1, f"gpu=0:{64 * MIB}", "1", path, program=built("stalling"), until="stalling")
        for _ in range(2):
            assert upgrade(fresh)["done"]
            figures = load.look()
            assert (figures.failed, figures.calls > 0) == (0, True)
        assert stalled.process.poll() is None
        fresh.end_slices()
    assert "status=0x0" in fresh.slice(3, f"gpu=0:{64 * MIB}", "alloc=1M").finish()
