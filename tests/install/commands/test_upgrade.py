# SPDX-License-Identifier: Apache-2.0
"""cgpu upgrade against real daemons with simulated cards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from cgpu import __version__
from cgpu.client.tree import Tree
from cgpu.errors import CgpuError
from cgpu.install import drain
from cgpu.install.commands.upgrade import daemon as upgrade_daemon
from cgpu.install.commands.upgrade import main as upgrade_command
from cgpu.install.runner import Done
from cgpu.kmod.daemon import manage
from cgpu.kmod.daemon.program import Program
from tests.daemon import versions
from tests.daemon.harness import MIB, ROOT, Daemon, Sliced, serving

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("mark")]

SIX = f"gpu=0:{6043 * MIB}"
# Says its version, and starts only to fail.
FAILS = 'if "--version" not in sys.argv: sys.exit("cgpud: it is broken")'
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def newer(others: Path) -> Program:
    return versions.build(others, "0.2.0")


@pytest.fixture(scope="module")
def foreign(others: Path) -> Program:
    """A version that cannot read this one's state."""
    return versions.build(others, "0.4.0", "-DCORE_VERSION=2u")


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with serving(Daemon) as made:
        yield made


@pytest.fixture
def ask(daemon: Daemon, capsys: Captured) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs the command on that daemon."""

    def run(*words: str) -> tuple[int, str, str]:
        status = upgrade_command.main(["--run", str(daemon.run), *words])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


Ask = Callable[..., tuple[int, str, str]]


def holding(daemon: Daemon) -> Sliced:
    """Start a container that holds 1 GiB and asks for another in the end."""
    sliced = daemon.slice(1, SIX, "alloc=1G", "hold", "alloc=1G")
    sliced.line("alloc")
    return sliced


def goes_on(daemon: Daemon, sliced: Sliced) -> None:
    """Fail unless such a container has what it had, and gets more."""
    assert daemon.used(sliced) == 1024 * MIB
    assert "alloc 1073741824 size=1073741824" in sliced.finish("\n")


def end(daemon: Daemon, sliced: Sliced) -> None:
    """End a container, and wait until the engine has none."""
    sliced.finish("\n")
    while daemon.instances():
        pass


def test_without_an_engine(tmp_path: Path, capsys: Captured) -> None:
    """The command says that it has nothing to do where no engine runs."""
    assert upgrade_command.main(["--run", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("no engine runs: there is nothing to do; version ")


def test_what_runs_beside_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The publisher and the wrapper's server go on with the new version, where systemd runs them."""
    ran: list[str] = []

    class Systemctl:
        def run(self, words: Sequence[str], timeout: float = 0) -> Done:
            ran.append(" ".join(words))
            return Done(5, f"Unit {words[-1]} not found.\n")

    monkeypatch.setattr(upgrade_command, "ROOT", tmp_path)
    monkeypatch.setattr(upgrade_command, "SystemRunner", lambda *_: Systemctl())
    assert upgrade_command.main(["--run", str(tmp_path)]) == 0
    assert ran == []
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    for words in ((), ("--dry-run",)):
        assert upgrade_command.main(["--run", str(tmp_path), *words]) == 0
    units = ("cgpu-smi-publish.service", "cgpu-exporter.service", "cgpu-container-runtime.service")
    assert ran == [f"systemctl try-restart {unit}" for unit in units]


@pytest.mark.parametrize(("status", "said"), [(0, ""), (5, ""), (1, "cgpu-exporter")])
def test_a_service_that_does_not_come_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured, status: int, said: str
) -> None:
    """A service that does not start with the new version is named, with why; one that is not there is not."""

    class Systemctl:
        def run(self, words: Sequence[str], timeout: float = 0) -> Done:
            return Done(status if "exporter" in words[-1] else 0, "Job failed.\n")

    monkeypatch.setattr(upgrade_command, "ROOT", tmp_path)
    monkeypatch.setattr(upgrade_command, "SystemRunner", lambda *_: Systemctl())
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert upgrade_command.main(["--run", str(tmp_path)]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("To do")]
    assert lines == ([f"To do: systemctl restart {said}.service (Job failed.)"] if said else [])


def test_what_runs_on_as_another_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Services of another version of the bundle that nobody restarts are named; other commands are not."""
    versions = tmp_path / "opencgpu"
    started = []
    try:
        for version, words in (("0.0.9", "exporter"), ("0.0.9", "run"), (__version__, "exporter")):
            program = versions / version / "lib/loader"
            if not program.exists():
                program.parent.mkdir(parents=True)
                shutil.copy("/bin/sh", program)
            command = [str(program), "-c", "sleep 1000; exit", "cgpu", words]
            started.append(subprocess.Popen(command, executable=program, start_new_session=True))
        monkeypatch.setattr("cgpu.paths.BUNDLE", str(versions / __version__))
        monkeypatch.setattr(upgrade_command, "ROOT", tmp_path)
        assert upgrade_command.main(["--run", str(tmp_path)]) == 0
    finally:
        for one in started:
            os.killpg(one.pid, signal.SIGKILL)
            one.wait()
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("To do")]
    assert lines == [f"To do: end process {started[0].pid} (loader) of version 0.0.9, and start it again"]


def test_same_version(daemon: Daemon, ask: Ask) -> None:
    """The version that runs already is left alone, unless it is asked for."""
    pid = daemon.pid()
    status, out, _ = ask()
    assert status == 0
    assert out.endswith("version 0.1.0 is what is installed: there is nothing to do\n")
    assert daemon.pid() == pid
    status, out, _ = ask("--hot")
    assert status == 0
    assert daemon.pid() == pid
    assert f"cgpud {__version__} runs; containers' calls waited " in out


def test_newer_version_takes_over(daemon: Daemon, ask: Ask, newer: Program) -> None:
    """A dry run changes nothing; then the newer one takes over while a container goes on."""
    sliced = holding(daemon)
    pid = daemon.pid()
    status, out, _ = ask("--program", newer.argv[0], "--dry-run")
    assert (status, daemon.pid()) == (0, pid)
    assert "with 1 sliced container\n" in out
    assert out.endswith("cgpud 0.2.0 was ready to take over; nothing was changed\n")
    status, out, _ = ask("--program", newer.argv[0])
    assert status == 0, out
    assert daemon.read("version") == "0.2.0\n"
    goes_on(daemon, sliced)


def test_cold(daemon: Daemon, ask: Ask, newer: Program) -> None:
    """Cold is refused while a container runs, and else stops the one and starts the other."""
    sliced = holding(daemon)
    pid = daemon.pid()
    status, _, error = ask("--cold", "--program", newer.argv[0])
    assert (status, daemon.pid()) == (1, pid)
    assert error == "cgpu upgrade: --cold: 1 sliced container runs; stop them first\n"
    end(daemon, sliced)
    status, _, error = ask("--cold", "--program", newer.argv[0])
    assert (status, error) == (0, "")
    assert daemon.read("version") == "0.2.0\n"


def test_where_hot_cannot_be(daemon: Daemon, ask: Ask, foreign: Program) -> None:
    """A version that cannot read the state is refused beside containers, and started cold without them."""
    sliced = holding(daemon)
    status, _, error = ask("--program", foreign.argv[0])
    assert status == 1
    assert error.startswith("cgpu upgrade: version 0.4.0 cannot read the state of version 0.1.0; ")
    assert error.endswith("--cold: 1 sliced container runs; stop them first\n")
    assert daemon.used(sliced) == 1024 * MIB
    end(daemon, sliced)
    status, _, error = ask("--hot", "--program", foreign.argv[0])
    assert status == 1
    assert daemon.read("version") == "0.1.0\n"
    status, out, error = ask("--program", foreign.argv[0])
    assert (status, error) == (0, ""), out
    assert daemon.read("version") == "0.4.0\n"


def test_what_does_not_start(daemon: Daemon, ask: Ask, others: Path) -> None:
    """The command refuses a program that is no cgpud; if a cold start fails, the old daemon runs again."""
    status, _, error = ask("--program", "/bin/true")
    assert status == 1
    assert error == "cgpu upgrade: --program /bin/true: is no cgpud\n"
    broken = versions.script(others / "broken", ROOT, FAILS)
    status, _, error = ask("--cold", "--program", broken.argv[0])
    assert status == 1
    assert error == "cgpu upgrade: it is broken; cgpud 0.1.0 runs again\n"
    assert daemon.read("version") == "0.1.0\n"


def comes(daemon: Daemon, monkeypatch: pytest.MonkeyPatch, at: object, name: str) -> list[Sliced]:
    """Have a container registered as soon as a function has ended; return where it will be."""
    made: list[Sliced] = []
    real = getattr(at, name)

    def then(*words: Any, **more: Any) -> Any:
        try:
            return real(*words, **more)
        finally:
            if not made:
                made.append(holding(daemon))

    monkeypatch.setattr(at, name, then)
    return made


@pytest.mark.parametrize(
    ("at", "name", "words"),
    [(upgrade_daemon, "hot", ()), (drain, "begin", ("--cold",))],
)
def test_cold_beside_one_that_came_meanwhile(
    daemon: Daemon,
    ask: Ask,
    foreign: Program,
    mark: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    at: object,
    name: str,
    words: tuple[str, ...],
) -> None:
    """A container registered during the hot attempt, or before slices are refused, keeps its slice."""
    made = comes(daemon, monkeypatch, at, name)
    pid = daemon.pid()
    status, _, error = ask("--program", foreign.argv[0], *words)
    assert (status, daemon.pid(), mark.exists()) == (1, pid, False)
    assert error.endswith("--cold: 1 sliced container runs; stop them first\n")
    assert error.count("\n") == 1
    goes_on(daemon, made[0])


def test_cold_beside_one_that_comes_at_the_stop(
    daemon: Daemon, ask: Ask, foreign: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to the stop tells of a container registered past the mark: the old daemon runs again."""
    made: list[Sliced] = []
    real = manage.end

    def ending(*words: Any, **more: Any) -> Any:
        made.append(holding(daemon))
        return real(*words, **more)

    monkeypatch.setattr(manage, "end", ending)
    status, _, error = ask("--cold", "--program", foreign.argv[0])
    assert status == 1
    assert error == (
        "cgpu upgrade: 1 sliced container came while cgpud stopped; stop them first; cgpud 0.1.0 runs again\n"
    )
    assert daemon.read("version") == "0.1.0\n"
    goes_on(daemon, made[0])


def test_cold_that_finds_nobody_to_stop(
    daemon: Daemon, ask: Ask, newer: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command starts the same daemon again if it ended by itself, as its containers are unknown."""
    real = manage.end

    def ending(*words: Any, **more: Any) -> Any:
        real(*words, **more)
        return real(*words, **more)

    monkeypatch.setattr(manage, "end", ending)
    status, _, error = ask("--cold", "--program", newer.argv[0])
    assert (status, error) == (1, "cgpu upgrade: cgpud has ended meanwhile; cgpud 0.1.0 runs again\n")
    assert daemon.read("version") == "0.1.0\n"


def test_no_slices_while_cold(
    daemon: Daemon, ask: Ask, newer: Program, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the stop and the start slices are refused; then, and where it fails, they are given out."""
    seen: list[bool] = []
    real = upgrade_daemon.cold

    def cold(*words: Any) -> None:
        seen.append(mark.exists())
        with pytest.raises(
            CgpuError, match=r"no slices are given out while OpenCGPU is removed .* or upgraded"
        ):
            Tree(str(daemon.tree)).register("abc", 1, [])
        real(*words)

    monkeypatch.setattr(upgrade_daemon, "cold", cold)
    assert ask("--cold", "--dry-run", "--program", newer.argv[0])[0] == 0
    assert seen == []
    assert ask("--cold", "--program", newer.argv[0])[0] == 0
    assert (seen, mark.exists()) == ([True], False)


def test_the_mark_of_a_cold_one_that_ends(
    daemon: Daemon, ask: Ask, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it fails, or a signal ends it before the stop, slices are given out again."""
    real = drain.begin

    def begin(root: Path) -> None:
        real(root)
        os.kill(os.getpid(), signal.SIGTERM)

    def cold(*_: object) -> None:
        raise CgpuError("it fails today")

    pid = daemon.pid()
    monkeypatch.setattr(upgrade_daemon, "cold", cold)
    status, _, error = ask("--cold")
    assert (status, error, mark.exists()) == (1, "cgpu upgrade: it fails today\n", False)
    monkeypatch.setattr(drain, "begin", begin)
    status, _, error = ask("--cold")
    assert (status, error.count("\n"), mark.exists()) == (1, 1, False)
    assert "interrupted" in error
    assert daemon.pid() == pid


def test_a_killed_cold_one_has_left_its_mark(daemon: Daemon, ask: Ask, mark: Path) -> None:
    """The mark of a killed command refuses slices until the next command removes it."""
    mark.touch()
    assert ask("--dry-run")[0] == 0
    assert mark.exists()
    status, out, _ = ask()
    assert (status, mark.exists()) == (0, False)
    assert f"{mark}: removed; new slices are allowed again\n" in out
