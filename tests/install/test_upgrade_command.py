# SPDX-License-Identifier: Apache-2.0
"""cgpu upgrade against real daemons with simulated cards, and a kernel that only has modules' names."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from cgpu import __version__
from cgpu.install import upgrade_command, upgrade_module
from cgpu.install.runner import TIMEOUT_S, Done
from cgpu.kmod.daemon.program import Program
from cgpu.tree import Tree
from tests.daemon import versions
from tests.daemon.harness import MIB, ROOT, Daemon

pytestmark = pytest.mark.root

SIX = f"gpu=0:{6043 * MIB}"
# Says its version, and starts only to fail.
FAILS = 'if "--version" not in sys.argv: sys.exit("cgpud: it is broken")'
Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def newer(others: Path) -> Program:
    """A newer version."""
    return versions.build(others, "0.2.0")


@pytest.fixture(scope="module")
def foreign(others: Path) -> Program:
    """A version that cannot read this one's state."""
    return versions.build(others, "0.4.0", "-DCORE_VERSION=9u")


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    """A daemon of this version."""
    base = Path(tempfile.mkdtemp(prefix="cgpud-"))
    made = Daemon(base)
    yield made
    made.close()
    shutil.rmtree(base)


@pytest.fixture
def ask(daemon: Daemon, capsys: Captured) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs the command on that daemon."""

    def run(*words: str) -> tuple[int, str, str]:
        status = upgrade_command.main(["--run", str(daemon.run), *words])
        said = capsys.readouterr()
        return status, said.out, said.err

    return run


Ask = Callable[..., tuple[int, str, str]]


def test_without_an_engine(tmp_path: Path, capsys: Captured) -> None:
    """Where no engine runs there is nothing to do, and that is said."""
    assert upgrade_command.main(["--run", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("no engine runs: there is nothing to do; version ")


def test_same_version(daemon: Daemon, ask: Ask) -> None:
    """The version that runs already is left alone, unless it is asked for."""
    pid = daemon.pid()
    status, out, _ = ask()
    assert status == 0
    assert out.endswith("version 0.1.0 is what is installed: there is nothing to do\n")
    assert daemon.pid() == pid
    status, out, _ = ask("--hot")
    assert status == 0
    assert daemon.pid() != pid
    assert f"cgpud {__version__} runs; containers' calls waited " in out


def test_newer_version_takes_over(daemon: Daemon, ask: Ask, newer: Program) -> None:
    """A dry run changes nothing; then the newer one takes over while a container goes on."""
    sliced = daemon.slice(1, SIX, "alloc=1G", "hold", "alloc=1G")
    sliced.line("alloc")
    pid = daemon.pid()
    status, out, _ = ask("--program", newer.argv[0], "--dry-run")
    assert (status, daemon.pid()) == (0, pid)
    assert "with 1 sliced container\n" in out
    assert out.endswith("cgpud 0.2.0 was ready to take over; nothing was changed\n")
    status, out, _ = ask("--program", newer.argv[0])
    assert status == 0, out
    assert daemon.read("version") == "0.2.0\n"
    assert daemon.used(sliced) == 1024 * MIB
    assert "alloc 1073741824 size=1073741824" in sliced.finish("\n")


def test_cold(daemon: Daemon, ask: Ask, newer: Program) -> None:
    """Cold is refused while a container runs, and else stops the one and starts the other."""
    sliced = daemon.slice(1, SIX, "alloc=1G", "hold")
    sliced.line("alloc")
    pid = daemon.pid()
    status, _, error = ask("--cold", "--program", newer.argv[0])
    assert (status, daemon.pid()) == (1, pid)
    assert error == "cgpu upgrade: --cold: 1 sliced container runs; stop them first\n"
    sliced.finish("\n")
    while daemon.instances():
        pass
    status, _, error = ask("--cold", "--program", newer.argv[0])
    assert (status, error) == (0, "")
    assert daemon.read("version") == "0.2.0\n"


def test_where_hot_cannot_be(daemon: Daemon, ask: Ask, foreign: Program) -> None:
    """A version that cannot read the state is refused beside containers, and started cold without them."""
    sliced = daemon.slice(1, SIX, "alloc=1G", "hold")
    sliced.line("alloc")
    status, _, error = ask("--program", foreign.argv[0])
    assert status == 1
    assert error.startswith("cgpu upgrade: version 0.4.0 cannot read the state of version 0.1.0; ")
    assert error.endswith("--cold: 1 sliced container runs; stop them first\n")
    assert daemon.used(sliced) == 1024 * MIB
    sliced.finish("\n")
    while daemon.instances():
        pass
    status, _, error = ask("--hot", "--program", foreign.argv[0])
    assert status == 1
    assert daemon.read("version") == "0.1.0\n"
    status, out, error = ask("--program", foreign.argv[0])
    assert (status, error) == (0, ""), out
    assert daemon.read("version") == "0.4.0\n"


def test_what_does_not_start(daemon: Daemon, ask: Ask, others: Path) -> None:
    """What is no cgpud is refused; where one does not start cold, the one before runs again."""
    status, _, error = ask("--program", "/bin/true")
    assert status == 1
    assert error == "cgpu upgrade: --program /bin/true: is no cgpud\n"
    broken = versions.script(others / "broken", ROOT, FAILS)
    status, _, error = ask("--cold", "--program", broken.argv[0])
    assert status == 1
    assert error == "cgpu upgrade: it is broken; cgpud 0.1.0 runs again\n"
    assert daemon.read("version") == "0.1.0\n"


class Kernel:
    """Modules by name, and the core in use; what cannot be tried here without a virtual machine."""

    def __init__(self, tree: Path) -> None:
        """Begin with an older version's modules."""
        self.tree = tree
        self.modules = {"cgpu_km", "cgpu_core_0_0_9"}
        self.commands: list[str] = []
        self.refusals: dict[str, str] = {}
        self.error = 0
        for directory in ("0/abc",):
            (tree / directory).mkdir(parents=True)
        for node, text in (
            ("version", "0.0.9"),
            ("0/uuid", "GPU-1"),
            ("0/memtotal", "1024"),
            ("0/max_inst", "20"),
        ):
            (tree / node).write_text(text + "\n")

    def run(self, words: Sequence[str], timeout: float = TIMEOUT_S) -> Done:
        """Load and unload by name."""
        line = " ".join(words)
        self.commands.append(line)
        why = self.refusals.get(line, "")
        if not why and words[0] == "modprobe":
            self.modules.add(words[1])
        if not why and words[0] == "rmmod":
            self.modules.discard(words[1])
        return Done(bool(why), why or f"{__version__}\n")

    def exchange(self, tree: Tree) -> None:
        """Take the newest core that is not in use."""
        assert tree.path == str(self.tree)
        self.commands.append("exchange")
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        (self.tree / "version").write_text(__version__ + "\n")


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """A kernel with the module loaded."""
    made = Kernel(tmp_path / "tree")
    monkeypatch.setattr(upgrade_module, "module_tree", lambda: Tree(str(made.tree)))
    monkeypatch.setattr(upgrade_command, "SystemRunner", lambda _held=(): made)
    monkeypatch.setattr(upgrade_module, "_loaded", lambda: set(made.modules))
    monkeypatch.setattr(upgrade_module, "_ask_to_exchange", made.exchange)
    monkeypatch.setattr(upgrade_module, "UNLOAD_S", 0.0)
    return made


NEW = upgrade_module.core_of(__version__)
STEPS = [f"modinfo -F version {NEW}", f"modprobe {NEW}", "exchange", "rmmod cgpu_core_0_0_9"]


def test_module_core_takes_over(kernel: Kernel, capsys: Captured) -> None:
    """The installed core is loaded, takes over, and the old one goes; then there is nothing to do."""
    assert upgrade_command.main(["--dry-run"]) == 0
    assert kernel.commands == STEPS[:1]
    assert upgrade_command.main([]) == 0
    assert kernel.commands[1:] == STEPS
    assert capsys.readouterr().out.endswith(f"core {__version__} runs\n")
    kernel.modules.add("cgpu_core_0_0_9")
    assert upgrade_command.main([]) == 0
    assert kernel.modules == {"cgpu_km", NEW}


@pytest.mark.parametrize(
    ("number", "why"), [(errno.EBUSY, "did not end in time"), (errno.EPROTO, "cannot read the state")]
)
def test_module_core_is_refused(kernel: Kernel, capsys: Captured, number: int, why: str) -> None:
    """Where the exchange fails, the core that was loaded for it goes, and the one in use stays."""
    kernel.error = number
    assert upgrade_command.main(["--hot"]) == 1
    error = capsys.readouterr().err
    assert why in error
    assert error.count("\n") == 1
    assert kernel.modules == {"cgpu_km", "cgpu_core_0_0_9"}


def test_module_of_another_interface(kernel: Kernel, capsys: Captured) -> None:
    """A core for another cgpu_km is refused beside containers."""
    kernel.refusals[STEPS[1]] = "modprobe: ERROR: could not insert: Protocol error"
    assert upgrade_command.main([]) == 1
    error = capsys.readouterr().err
    assert "was made for another cgpu_km" in error
    assert error.endswith("--cold: 1 sliced container runs; stop them first\n")
    assert kernel.modules == {"cgpu_km", "cgpu_core_0_0_9"}


def test_module_that_is_not_installed(kernel: Kernel, capsys: Captured) -> None:
    """Without the installed core nothing is tried, and the message names the command that brings it."""
    kernel.refusals[STEPS[0]] = "modinfo: ERROR: Module not found."
    assert upgrade_command.main([]) == 1
    assert capsys.readouterr().err.endswith("install it with: cgpu install --engine module\n")
    assert kernel.commands == STEPS[:1]


def test_module_core_of_an_upgrade_before(kernel: Kernel) -> None:
    """A core that an attempt before this one has left goes first: the kernel would take it for ours."""
    kernel.modules.add("cgpu_core_0_0_8")
    assert upgrade_command.main([]) == 0
    assert kernel.commands == [STEPS[0], "rmmod cgpu_core_0_0_8", *STEPS[1:]]
    assert kernel.modules == {"cgpu_km", NEW}


def test_calls_in_the_old_core(kernel: Kernel, capsys: Captured) -> None:
    """An old core whose calls have not ended stays, and the message says how it goes later."""
    kernel.refusals[STEPS[3]] = "rmmod: ERROR: Module is in use"
    assert upgrade_command.main([]) == 0
    assert capsys.readouterr().out.endswith("unload it later: rmmod cgpu_core_0_0_9\n")
