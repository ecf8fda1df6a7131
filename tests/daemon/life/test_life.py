# SPDX-License-Identifier: Apache-2.0
"""The daemon's own life: start, stop, death, return."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

from cgpu import paths
from cgpu.client.tree import EngineDownError, Tree
from cgpu.config import refused
from cgpu.errors import CgpuError
from cgpu.kmod.daemon import control
from cgpu.kmod.daemon.simulate import Simulator
from cgpu.kmod.daemon.tree import mounts
from cgpu.kmod.daemon.tree.tree_fs import READY_S
from tests.daemon.conftest import MakeDaemon
from tests.daemon.harness import LEFT, MIB, PAGE, Daemon, long_id
from tests.daemon.upgrades import upgrade
from tests.integration.commands import eventually

SIX = f"gpu=0:{6043 * MIB}"


def test_stop_leaves_nothing(fresh: Daemon) -> None:
    """A second daemon is refused; after a stop no mount, socket or process is left, only files and links."""
    second = fresh.command("--simulate", "T4", "--tree", str(fresh.tree))
    assert (second.returncode, second.stderr.count("\n")) == (1, 1)
    assert second.stderr.startswith(f"cgpud: cgpud already runs as process {fresh.pid()} ")
    assert fresh.command("--stop").stdout == "cgpud has stopped\n"
    assert fresh.command("--stop").stdout == "cgpud was not running\n"
    fresh.close()
    assert sorted(p.name for p in fresh.run.iterdir()) == LEFT
    assert not fresh.tree.exists()
    assert mounts.mounted(str(fresh.run / "sim")) == []
    fresh.start()
    assert fresh.read("0/name") == "Tesla T4\n"


def test_tree_is_passed_on(fresh: Daemon) -> None:
    """A descriptor of the tree is had from the control socket; it holds no stop up, and is dead after it."""
    passed = control.ask_descriptor(str(fresh.run / "control.sock"), "tree")
    assert passed is not None
    with pytest.raises(CgpuError, match=r"status: the daemon passes no descriptor: "):
        control.ask_descriptor(str(fresh.run / "control.sock"), "status")
    tree = Path(f"/proc/self/fd/{passed}")
    try:
        assert (tree / "0/name").read_text() == "Tesla T4\n"
        (tree / "0/policy").write_text("2")
        assert fresh.read("0/policy") == "2\n"
        # A pod may have a descriptor of the tree: no way leads from it to the host's other files.
        assert (tree / "../version").samefile(tree / "version")
        began = time.monotonic()
        assert fresh.command("--stop").stdout == "cgpud has stopped\n"
        assert time.monotonic() - began < READY_S
        with pytest.raises(OSError, match=r"not connected|aborted"):
            (tree / "0/name").read_text()
        assert control.ask_descriptor(str(fresh.run / "control.sock"), "tree") is None
    finally:
        os.close(passed)


@pytest.mark.parametrize(
    "line",
    [
        "mknod {tree}/new p",
        "ln {tree}/version {tree}/new",
        "rmdir {tree}/0",
        "chmod 666 {tree}/0/policy",
        "chown 1 {tree}/0/policy",
        "touch {tree}/0/policy",
    ],
)
def test_entries_stay_as_they_are(daemon: Daemon, line: str) -> None:
    """To make, remove or change an entry of the tree is not permitted."""
    command = ["sh", "-c", line.format(tree=daemon.tree)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert "Operation not permitted" in done.stderr
    about = (daemon.tree / "0/policy").stat()
    assert (stat.S_IMODE(about.st_mode), about.st_uid) == (0o644, 0)


def test_calls_in_flight_happen_once(fresh: Daemon) -> None:
    """Calls that were in the daemon when it was killed are answered by the next one, and happen once."""
    limit = 400 * MIB
    busy = [fresh.slice(n, f"gpu=0:{limit}", "fill=64K:64k", "count", "hold") for n in (1, 2, 3)]
    eventually(lambda: all(fresh.used(one) > 0 for one in busy), "nothing was allocated")
    for _ in range(3):
        fresh.crash()
    for one in busy:
        assert f"held={limit // PAGE} bytes={limit} " in one.line("count")
        assert fresh.used(one) == limit
        one.finish()


def test_reader_of_a_dead_tree_gets_an_error(fresh: Daemon) -> None:
    """While the daemon is down its tree answers with an error, and does not hang."""
    fd = os.open(fresh.tree / "version", os.O_RDONLY)
    fresh.crash()
    with pytest.raises(OSError, match=r"Transport endpoint|Software caused|Input/output"):
        os.pread(fd, 16, 0)
    with contextlib.suppress(OSError):
        os.close(fd)


def test_a_container_starts_meanwhile(fresh: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hook waits for the next daemon, and has its slice."""
    monkeypatch.setattr(paths, "LOCK", str(fresh.run / "cgpud.lock"))
    tree = Tree(str(fresh.tree))

    def register() -> None:
        eventually(lambda: not os.path.exists(fresh.tree / "version"), "the daemon is dead")
        with pytest.raises(EngineDownError):
            tree.register(long_id(1), os.getpid(), [(0, MIB, 1, 0)])
        tree.await_restart(10)
        tree.register(long_id(1), os.getpid(), [(0, MIB, 1, 0)])

    fresh.crash(register)
    assert fresh.instances() == [long_id(1)[:12]]
    tree.destroy(long_id(1))


def test_stop_and_start_with_containers(fresh: Daemon) -> None:
    """A stop under running containers keeps their listeners; the next start takes them up."""
    sliced = fresh.slice(1, SIX, "alloc=1G", "hold", "alloc=1G", "count", until="alloc")
    done = fresh.command("--stop")
    assert done.returncode == 0
    assert done.stdout == (
        "cgpud has stopped; these containers keep their slices, and their GPU calls wait for its next start: "
        f"{sliced.id[:12]}\n"
    )
    assert not (fresh.run / "control.sock").exists()
    assert (fresh.run / "keeper.sock").exists()
    assert fresh.command("--stop").stdout.startswith("cgpud was not running; containers may wait for")
    done = fresh.command(*fresh.options()[2:])
    assert done.stdout == (
        f"cgpud has started as process {fresh.pid()}: tree {fresh.tree}, socket {fresh.run}/seccomp.sock, "
        "1 Tesla T4 (simulated); stop it: cgpud --stop\n"
    )
    assert fresh.used(sliced) == 1024 * MIB
    assert "bytes=2147483648 " in sliced.finish("\n")


def test_forced_stop_ends_all(fresh: Daemon) -> None:
    """A forced stop takes the slices away: the next call of a container fails."""
    sliced = fresh.slice(1, SIX, "alloc=1G", "hold", "expect-errno=38", "alloc=1G", until="alloc")
    done = fresh.command("--stop", "--force")
    assert (done.returncode, done.stdout) == (
        0,
        f"cgpud has stopped; these containers have lost their slices: {sliced.id[:12]}\n",
    )
    sliced.finish("\n")
    assert sorted(p.name for p in fresh.run.iterdir()) == LEFT


def test_leftovers_are_no_obstacle(base: Path, fresh: Daemon) -> None:
    """Sockets, a record of cards and a dead mount of an earlier daemon are cleared at the start."""
    keeper = fresh.lock_holder()
    pid = fresh.pid()
    os.kill(keeper, signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)
    Simulator(fresh.run / "sim").running()
    eventually(lambda: not Path(f"/proc/{pid}").exists(), "the daemon lives")
    assert mounts.mounted(str(fresh.tree)) == ["fuse"]
    assert (base / "run" / "control.sock").exists()
    fresh.start()
    assert fresh.instances() == []


def test_reload(make_daemon: MakeDaemon) -> None:
    """SIGHUP reads the configuration again; a wrong one changes nothing and is logged."""
    daemon = make_daemon("T4", "enforce: false\n")
    config, pid = daemon.run.parent / "config.yaml", daemon.pid()

    def is_logged(times: int) -> bool:
        return daemon.log().count("not reloaded") == times

    # The reader of YAML itself fails on the last two.
    wrong = ("maybe", "!!bool maybe", f"0x{'f' * 5000}", "true\nlow_level_runtime: /bin/none")
    for number, text in enumerate(wrong, start=1):
        config.write_text(f"enforce: {text}\n")
        os.kill(pid, signal.SIGHUP)
        eventually(partial(is_logged, number), f"the wrong configuration is not logged: {text[:20]}")
    config.write_text("enforce: true\nlow_level_runtime: /bin/true\n")
    os.kill(daemon.pid(), signal.SIGHUP)
    eventually(lambda: "configuration reloaded" in daemon.log(), "the right one was not taken")
    assert '"enforce": true' in (daemon.run / "config.json").read_text()
    assert (daemon.run / "low-level-runtime").readlink() == Path("/bin/true")
    assert "enforce=off" not in daemon.read("engine")
    assert daemon.pid() == pid


def _is_logged(daemon: Daemon, text: str) -> bool:
    return text in daemon.log()


def test_refused_reload_leaves_the_log(make_daemon: MakeDaemon) -> None:
    """A configuration that changes what only a restart may change has no effect, on the log neither."""
    daemon = make_daemon("T4", "log_format: text\n")
    assert daemon.command("--stop").returncode == 0
    config = daemon.run.parent / "config.yaml"
    same, other = f"tree: {daemon.tree}", f"tree: {daemon.tree}-2"
    config.write_text(f"log_format: text\n{same}\n")
    assert daemon.command("--simulate", "T4", "--config", str(config)).returncode == 0
    refused = "not reloaded: tree: changes only with a restart"
    for settings, begin in (
        (f"log_format: json\n{other}", f"ERROR {refused}"),
        (f"log_format: json\n{same}", '"message": "configuration reloaded'),
        (f"log_format: json\nlog_level: error\n{other}", f'"message": "{refused}'),
    ):
        config.write_text(f"{settings}\n")
        os.kill(daemon.pid(), signal.SIGHUP)
        eventually(partial(_is_logged, daemon, begin), begin, instead=daemon.log)
    assert daemon.command("--stop").returncode == 0
    assert '"message": "stopped"' in daemon.log()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--simulate", "T5"), "cgpud: --simulate T5: there is no such model; did you mean T4?"),
        (("--run", "here"), "cgpud: --run here: expected an absolute path"),
        (("--force",), "cgpud: --force: expected only with --stop"),
        (("--config", "/nowhere.yaml"), "cgpud: /nowhere.yaml: there is no such file"),
    ],
)
def test_bad_start(base: Path, options: tuple[str, ...], line: str) -> None:
    """A start that cannot be is one line, and leaves nothing behind."""
    daemon = Daemon.__new__(Daemon)
    daemon.run = base / "run"
    done = daemon.command(*options)
    assert done.returncode == 1
    assert done.stderr.startswith(line)
    assert done.stderr.count("\n") == 1
    assert not daemon.run.exists()


def test_a_wrong_configuration(fresh: Daemon) -> None:
    """A start that refuses its configuration says the line, also to the runtime, until a start takes it."""
    fresh.close()
    config = fresh.run / "node.yaml"
    config.write_text("# of this node\nmax_instt: 5\n")
    note = str(fresh.run / "config-refused.json")
    done = fresh.command("--simulate", "T4", "--tree", str(fresh.tree), "--config", str(config))
    line = f"{config}:2: max_instt: 5: there is no such key; did you mean max_inst? "
    line += "every key: cgpu config explain"
    assert (done.returncode, done.stderr) == (1, f"cgpud: {line}\n")
    assert refused.why(note) == line
    config.write_text("max_inst: 5\n")
    assert refused.why(note) == ""
    fresh.start()
    assert not Path(note).exists()


def test_cycles_leave_no_descriptors(fresh: Daemon) -> None:
    """Many registrations leave the daemon's memory, threads and descriptors where they were."""
    process = psutil.Process(fresh.pid())

    def cycle(times: int) -> tuple[int, int, int]:
        for _ in range(times):
            fresh.write("inst_ctl", f"create id={'c' * 64} pid={os.getpid()} gpu=0:{MIB}")
            fresh.write("inst_ctl", f"destroy id={'c' * 64}")
        eventually(lambda: fresh.status()["containers"] == [], "a registration stayed")
        return process.num_fds(), process.num_threads(), process.memory_info().rss

    files, threads, memory = cycle(100)
    after = cycle(300)
    assert after[0] <= files + 1
    assert after[1] <= threads
    assert after[2] <= memory + MIB


def test_second_start_after_the_keepers_death(fresh: Daemon) -> None:
    """The daemon goes on and holds the lock: no second start, no upgrade; stop works, then a start."""
    sliced = fresh.slice(1, SIX, "alloc=1G", "hold", "alloc=1G", "count", until="alloc")
    pid = fresh.pid()
    os.kill(fresh.lock_holder(), signal.SIGKILL)
    second = fresh.command("--simulate", "T4", "--tree", str(fresh.tree))
    assert second.returncode == 1
    assert second.stderr.startswith(f"cgpud: cgpud already runs as process {pid} ")
    eventually(lambda: "the keeper has died" in fresh.log(), "nobody noticed")
    # No keeper is left to hold the descriptors if the other program dies.
    with pytest.raises(CgpuError, match="the keeper of cgpud has died"):
        upgrade(fresh)
    assert fresh.used(sliced) == 1024 * MIB
    assert "bytes=2147483648 " in sliced.finish("\n")
    eventually(lambda: not fresh.instances(), "the container is gone")
    assert "status=0x0" in fresh.slice(2, SIX, "alloc=1G").finish()
    assert fresh.status()["pid"] == pid
    assert fresh.command("--stop").returncode == 0
    assert sorted(p.name for p in fresh.run.iterdir() if p.name != "cgpud.lock") == LEFT
    fresh.start()
    assert mounts.mounted(str(fresh.tree)) == ["fuse"]
    assert "status=0x0" in fresh.slice(2, SIX, "alloc=1G").finish()
