# SPDX-License-Identifier: Apache-2.0
"""A daemon goes on as another version while containers run, or goes on as it was."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from cgpu import process_identity
from cgpu.errors import CgpuError
from cgpu.events.event import Event
from cgpu.events.sources import LogFile
from cgpu.install.commands.upgrade import daemon as upgrade_daemon
from cgpu.install.runner import SystemRunner
from cgpu.kmod.daemon.places import Places
from cgpu.kmod.daemon.program import Program
from cgpu.kmod.daemon.store import fd_store
from cgpu.kmod.daemon.tree import mounts
from tests.daemon import versions
from tests.daemon.conftest import MakeDaemon
from tests.daemon.harness import LEFT, MIB, ROOT, Daemon, long_id
from tests.daemon.upgrades import Steady, await_one, held, upgrade
from tests.integration.commands import PATIENCE, eventually

SIX = f"gpu=0:{6043 * MIB}"
# A call that an upgrade left unanswered would wait for longer.
PAUSE_MS = 10_000.0


@pytest.fixture(scope="module")
def foreign(others: Path) -> Program:
    """A version with a layout that has nothing to do with ours."""
    return versions.build(others, "0.4.0", "-DCORE_VERSION=3u")


def events(daemon: Daemon) -> list[Event]:
    return LogFile(str(daemon.run / "events.log")).poll()


def test_another_version_serves_with_all_charges(make_daemon: MakeDaemon, newer: Program) -> None:
    """A newer version follows; containers keep slices, charges and limits, and the event log goes on."""
    daemon = make_daemon("T4:2")
    words = ("alloc=3G", "free=last", "alloc=1G", "hold", "alloc=1G", "alloc=5G", "count")
    sliced = daemon.slice(1, f"{SIX} gpu=1:{MIB << 10}", *words, until="hold")
    before = daemon.pid()
    result = upgrade(daemon, newer)
    assert (result["done"], result["from"]) == (True, "0.1.0")
    assert daemon.pid() == before
    assert daemon.read("version") == "0.2.0\n"
    assert daemon.status()["version"] == "0.2.0"
    assert daemon.used(sliced) == 1024 * MIB
    out = sliced.finish("\n")
    assert "bytes=2147483648 " in out
    assert "alloc 5368709120 size=5368709120 offset=0 limit=0" in out
    eventually(lambda: daemon.instances() == [], "the container was not reclaimed")
    kinds = ["ready", "started", "started", "upgraded", "ended", "ended"]
    eventually(
        lambda: [one.event for one in events(daemon)] == kinds,
        "each event once",
        instead=lambda: events(daemon),
    )
    assert events(daemon)[3].message == "cgpud 0.2.0 goes on for version 0.1.0"
    assert events(daemon)[4].figures["peak"] == 3072 * MIB


def await_no_more(daemon: Daemon, files: int, threads: int) -> None:
    """Wait until a daemon has no more files and threads than one had before it."""

    def are_no_more() -> bool:
        now = held(daemon.pid())
        return now[0] <= files + 1 and now[1] <= threads + 2

    eventually(are_no_more, f"{files} files, {threads} threads", instead=lambda: held(daemon.pid()))


def test_upgrades_in_a_row_under_load(make_daemon: MakeDaemon, newer: Program) -> None:
    """No call of containers fails in several upgrades, nor waits for long; files and threads do not grow."""
    daemon = make_daemon("T4:2")
    holding = [daemon.slice(n, f"gpu=1:{512 * MIB}", "gpu=1", "alloc=256M", "hold") for n in (1, 2)]
    for one in holding:
        one.line("alloc")
    load = [Steady(daemon, 10 + n, f"gpu=0:{512 * MIB}", 500) for n in range(3)]
    first = None
    for _ in range(int(os.environ.get("CGPU_UPGRADES", "4"))):
        version = "0.2.0" if daemon.read("version") == "0.1.0\n" else "0.1.0"
        upgrade(daemon, newer if version == "0.2.0" else None)
        assert daemon.read("version") == f"{version}\n"
        assert [daemon.used(one, 1) for one in holding] == [256 * MIB] * 2
        figures = [one.look() for one in load]
        assert all(one.failed == 0 and one.calls > 0 for one in figures), figures
        assert max(one.longest_ms for one in figures) < PAUSE_MS, figures
        first = first or held(await_one(daemon))
    assert first is not None
    await_no_more(daemon, *first)
    tasks = [int(name) for name in os.listdir(f"/proc/{daemon.pid()}/task")]
    assert {os.sched_getscheduler(tid) for tid in tasks} == {os.SCHED_OTHER}
    assert "listener-" not in daemon.log()
    for one in holding:
        one.finish()


def test_another_layout_takes_over_and_does_not_give_back(fresh: Daemon, converting: Program) -> None:
    """A version that converts the state gets it with all charges; the one before then cannot read it."""
    sliced = fresh.slice(1, SIX, "alloc=1G", "hold", "alloc=1G", "count", until="alloc")
    load = Steady(fresh, 2, f"gpu=0:{512 * MIB}", 1000)
    upgrade(fresh, converting)
    assert fresh.read("version") == "0.3.0\n"
    with pytest.raises(
        CgpuError, match=r"^version 0\.1\.0 cannot read the state of version 0\.3\.0; .* goes on$"
    ):
        upgrade(fresh)
    assert fresh.read("version") == "0.3.0\n"
    fresh.crash()
    assert fresh.read("version") == "0.3.0\n"
    assert fresh.used(sliced) == 1024 * MIB
    assert load.look().failed == 0
    assert "bytes=2147483648 " in sliced.finish("\n")


class Installed(Daemon):
    """A daemon whose package lies in its own folder."""

    def command(self, *options: str) -> subprocess.CompletedProcess[str]:
        line = [str(self.run.parent / "0.1.0" / "cgpud"), "--run", str(self.run), *options]
        return subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def replace(self, program: Program) -> None:
        """Stop it, put another version's files in place of its own, and start it."""
        folder = self.run.parent / "0.1.0"
        assert self.command("--stop").returncode == 0
        (folder / "cgpu").rename(folder / "before")
        shutil.copytree(Path(program.argv[0]).parent / "cgpu", folder / "cgpu", symlinks=True)
        self.start()


def test_layout_follows_after_a_stop(base: Path, converting: Program) -> None:
    """A version whose files replace those of one that has stopped converts what that has left."""
    versions.build(base, "0.1.0")
    daemon = Installed(base)
    try:
        sliced = daemon.slice(1, SIX, "alloc=1G", "hold", "count", until="alloc")
        daemon.replace(converting)
        assert daemon.read("version") == "0.3.0\n"
        assert daemon.used(sliced) == 1024 * MIB
        assert "bytes=1073741824 " in sliced.finish("\n")
    finally:
        daemon.close()


def test_foreign_layout_after_a_stop(base: Path, foreign: Program) -> None:
    """A version that cannot read what was left starts without it, and containers lose their slices."""
    versions.build(base, "0.1.0")
    daemon = Installed(base)
    try:
        sliced = daemon.slice(1, SIX, "alloc=1G", "hold", "alloc=1G", until="alloc")
        daemon.replace(foreign)
        assert daemon.read("version") == "0.4.0\n"
        assert "starting without it, running containers lose their GPUs" in daemon.log()
        assert daemon.instances() == []
        assert "status=0x0" not in sliced.finish("\n")
    finally:
        daemon.close()


def test_configuration_that_cannot_be_read(make_daemon: MakeDaemon, newer: Program) -> None:
    """A configuration that the other version refuses is one line, and the one that runs goes on."""
    daemon = make_daemon("T4", "policy: 1\n")
    sliced = daemon.slice(1, SIX, "alloc=1G", "hold", "alloc=1G", until="alloc")
    pid = daemon.pid()
    (daemon.run.parent / "config.yaml").write_text("no_such_key: 1\n")
    with pytest.raises(CgpuError, match="no_such_key") as refused:
        upgrade(daemon, newer)
    assert "\n" not in str(refused.value)
    assert daemon.pid() == pid
    assert daemon.used(sliced) == 1024 * MIB
    assert "alloc 1073741824 size=1073741824" in sliced.finish("\n")


def test_program_that_does_not_start(fresh: Daemon, newer: Program, foreign: Program, base: Path) -> None:
    """A program that is no cgpud, dies, or has a foreign layout is refused; the one that runs goes on.

    A rehearsal, too, leaves it running, and says what version was ready.
    """
    pid = fresh.pid()
    places = Places(fresh.run)
    running = upgrade_daemon.running(places)
    assert running is not None
    assert upgrade_daemon.rehearse(places, running, newer) == "0.2.0"
    broken = versions.script(base / "broken", base, "raise SystemExit(7)")
    with pytest.raises(CgpuError, match=r"broken: ended with status 7 before it was ready; .* goes on$"):
        upgrade(fresh, broken)
    with pytest.raises(CgpuError, match=r"^version 0\.4\.0 cannot read the state of version 0\.1\.0; "):
        upgrade(fresh, foreign)
    with pytest.raises(CgpuError, match=r"/nowhere: expected the absolute path of a cgpud"):
        upgrade_daemon.installed(SystemRunner(), "/nowhere")
    assert fresh.pid() == pid
    assert fresh.read("version") == "0.1.0\n"
    assert mounts.mounted(str(fresh.run / "next-tree")) == []
    eventually(lambda: not (fresh.run / "next-tree").exists(), "nothing stays behind")
    assert upgrade(fresh, newer)["done"]


def test_tree_is_there_throughout(fresh: Daemon, newer: Program) -> None:
    """Readers, registrations and removals never meet a tree that is not there."""
    failures: list[str] = []
    rounds = [0]
    done = threading.Event()

    def use() -> None:
        seed = 1000
        while not done.is_set():
            name = long_id(seed := seed + 1)
            try:
                assert fresh.read("0/name") == "Tesla T4\n"
                fresh.write("inst_ctl", f"create id={name} pid={os.getpid()} gpu=0:{MIB}\n")
                assert name[:12] in fresh.instances()
                assert fresh.read(f"0/{name[:12]}/memsize") == f"{MIB}\n"
                fresh.write("inst_ctl", f"destroy id={name}\n")
                rounds[0] += 1
            except (OSError, AssertionError) as error:
                failures.append(repr(error))

    user = threading.Thread(target=use)
    user.start()
    try:
        for _ in range(4):
            upgrade(fresh, newer)
    finally:
        done.set()
        user.join()
    assert failures == []
    assert rounds[0] > 10


def test_open_nodes_fail_after_the_upgrade(make_daemon: MakeDaemon, newer: Program) -> None:
    """A node that a process keeps open fails soon, as after a restart, and can be opened anew."""
    daemon = make_daemon()
    reader = os.open(daemon.tree / "version", os.O_RDONLY)
    folder = os.open(daemon.tree / "0", os.O_RDONLY)
    try:
        assert os.pread(reader, 64, 0) == b"0.1.0\n"
        upgrade(daemon, newer)
        for use in (lambda: os.pread(reader, 64, 0), lambda: os.listdir(folder)):
            with pytest.raises(OSError) as refused:  # noqa: PT011, one of three numbers
                use()
            assert refused.value.errno in (errno.ENOTCONN, errno.ECONNABORTED, errno.ESTALE)
    finally:
        for fd in (reader, folder):
            with suppress(OSError):
                os.close(fd)
    assert daemon.read("version") == "0.2.0\n"


def is_gone(tree: Path) -> bool:
    """Tell whether a tree's folder is gone; one whose daemon has just ended cannot be asked."""
    try:
        return not tree.exists()
    except OSError:
        return False


def test_under_a_service_manager(base: Path, newer: Program) -> None:
    """Under systemd the daemon keeps its state there, is stopped by it alone, and stays its process.

    The next version says that it is ready, has the lock, and ends on SIGTERM.
    """
    manager = fd_store.bind(str(base / "notify"))
    run = base / "run"
    line = [sys.executable, "-m", "cgpu.kmod.daemon.main", "--run", str(run), "--simulate", "T4"]
    environment = {**os.environ, "NOTIFY_SOCKET": str(base / "notify")}
    with (base / "log").open("wb") as log:
        process = subprocess.Popen(
            [*line, "--tree", str(base / "tree")], cwd=ROOT, env=environment, stderr=log
        )
    said: list[tuple[int, str]] = []

    def heard(what: str) -> bool:
        while (message := fd_store.receive(manager)) is not None:
            said.extend((message.pid, f"{key}={value}") for key, value in message.fields.items())
            for fd in message.fds:
                os.close(fd)
        return any(text == what for _, text in said)

    try:
        eventually(lambda: heard("READY=1"), "the first one is ready")
        stored = [text for _, text in said if not text.startswith("EXTEND_TIMEOUT_USEC=")]
        assert stored[:2] == ["FDSTORE=1", "FDNAME=state"]
        stop = subprocess.run([*line[:5], "--stop"], cwd=ROOT, capture_output=True, text=True, check=False)
        assert (stop.returncode, stop.stderr) == (1, "cgpud: cgpud is run by systemd: systemctl stop cgpud\n")
        places = Places(run)
        running = upgrade_daemon.running(places)
        assert running is not None
        assert running.managed
        upgrade_daemon.hot(places, running, newer)
        assert int((run / "cgpud.pid").read_text()) == process.pid
        assert heard("STATUS=version 0.2.0")
        assert [text for _, text in said].count("READY=1") == 2
        assert {pid for pid, _ in said} == {process.pid}
        assert process_identity.parse((run / "cgpud.lock").read_bytes()).pid == process.pid
        process.send_signal(signal.SIGTERM)
        eventually(lambda: is_gone(base / "tree"), "it stops")
        assert heard("STOPPING=1")
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        manager.close()


def test_stop_after_upgrades_leaves_nothing(fresh: Daemon, newer: Program) -> None:
    """After upgrades a stop leaves no mount, socket or process."""
    keeper = fresh.lock_holder()
    for _ in range(2):
        upgrade(fresh, newer)
    assert Path(f"/proc/{fresh.pid()}/stat").read_text().split()[3] == str(keeper)
    fresh.close()
    assert sorted(p.name for p in fresh.run.iterdir()) == LEFT
    assert not fresh.tree.exists()
    assert mounts.mounted(str(fresh.tree)) == []
    eventually(lambda: not Path(f"/proc/{keeper}").exists(), "the keeper ends")
