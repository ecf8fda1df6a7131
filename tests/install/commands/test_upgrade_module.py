# SPDX-License-Identifier: Apache-2.0
"""cgpu upgrade of the kernel module, against a kernel that only has modules' names."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from cgpu import __version__, paths
from cgpu.client.tree import Tree
from cgpu.config import apply
from cgpu.errors import CgpuError
from cgpu.install import drain
from cgpu.install.commands.upgrade import main as upgrade_command
from cgpu.install.commands.upgrade import module as upgrade_module
from cgpu.install.our_files import AT_LOAD
from cgpu.install.runner import TIMEOUT_S, Done

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("mark")]

Captured = pytest.CaptureFixture[str]


class KilledError(BaseException):
    """The command ends here, and does nothing more."""


class Kernel:
    """Modules by name, and the core in use. kill: the step after which the command is killed."""

    def __init__(self, tree: Path) -> None:
        """Begin with an older version's modules."""
        self.tree = tree
        self.modules = {"cgpu_km", "cgpu_core_0_0_9"}
        self.commands: list[str] = []
        self.refusals: dict[str, str] = {}
        self.error = 0
        self.kill = 0
        for directory in ("0/abc",):
            (tree / directory).mkdir(parents=True)
        for node, text in (
            ("version", "0.0.9"),
            ("gpus", "index=0 uuid=GPU-1 memtotal=1024 max_inst=20"),
            ("0/reserved", ""),
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
        self.step()
        return Done(bool(why), why or f"{__version__}\n")

    def step(self) -> None:
        """End the command at its step of that number; what it would do on its way out is not done either."""
        if 0 < self.kill <= len(self.commands):
            raise KilledError

    def exchange(self, tree: Tree) -> None:
        """Take the newest core that is not in use."""
        assert tree.path == str(self.tree)
        self.commands.append("exchange")
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        (self.tree / "version").write_text(__version__ + "\n")
        self.step()


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


def none_registered(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    """Have the module with a version's core, and nobody registered."""
    (kernel.tree / "0/abc").rmdir()
    (kernel.tree / "version").write_text(version + "\n")
    kernel.modules = {"cgpu_km", upgrade_module.core_of(version)}
    monkeypatch.setattr(upgrade_module, "MARK", tmp_path / "mark")
    monkeypatch.setattr(paths, "CONFIG", str(tmp_path / "none"))
    monkeypatch.setattr(paths, "PARAMETERS", str(tmp_path))
    for key in AT_LOAD:
        (tmp_path / key).write_text("Y\n")


def test_module_cold_beside_one_that_came_meanwhile(
    kernel: Kernel, tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """The command counts containers registered since its first count before it unloads anything."""
    none_registered(kernel, tmp_path, monkeypatch, "0.0.9")
    monkeypatch.setattr(drain, "begin", lambda _: (kernel.tree / "0/def").mkdir())
    assert upgrade_command.main(["--cold"]) == 1
    assert capsys.readouterr().err == "cgpu upgrade: --cold: 1 sliced container runs; stop them first\n"
    assert kernel.commands == []
    assert not mark.exists()


@pytest.mark.parametrize("version", [__version__, "0.0.9"])
def test_module_cold_that_takes_no_configuration(
    kernel: Kernel,
    tmp_path: Path,
    mark: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
    version: str,
) -> None:
    """The command does not say that a core goes on which it loaded anew, whichever version it is."""
    none_registered(kernel, tmp_path, monkeypatch, version)
    draining: list[bool] = []

    def refuse(_: object) -> None:
        draining.append(mark.exists())
        raise CgpuError("context_memory: 5: cannot be set in the loaded module (Invalid argument)")

    monkeypatch.setattr(apply, "apply", refuse)
    assert upgrade_command.main(["--cold"]) == 1
    error = capsys.readouterr().err
    assert f"; core {version} runs again, without the configuration: context_memory: 5: " in error
    assert error.count("\n") == 1
    given = " ".join(f"{key}=Y" for key in AT_LOAD)
    assert kernel.commands[-2:] == [
        f"modprobe cgpu_km {given}",
        f"modprobe {upgrade_module.core_of(version)}",
    ]
    assert draining == [True, True]
    assert not mark.exists()


def test_module_cold_that_cannot_unload(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """A core that cannot be unloaded goes on, with all that it has."""
    none_registered(kernel, tmp_path, monkeypatch, "0.0.9")
    kernel.refusals["rmmod cgpu_core_0_0_9"] = "rmmod: ERROR: Module is in use"
    assert upgrade_command.main(["--cold"]) == 1
    assert capsys.readouterr().err.endswith("Module is in use; core 0.0.9 goes on\n")
    assert kernel.modules == {"cgpu_km", "cgpu_core_0_0_9"}
    assert not (tmp_path / "mark").exists()


@pytest.mark.parametrize("step", range(1, len(STEPS) + 1))
def test_module_killed_at_each_step(kernel: Kernel, step: int) -> None:
    """The command after a killed one ends with the new core alone, at whichever step that was killed."""
    kernel.kill = step
    with pytest.raises(KilledError):
        upgrade_command.main([])
    kernel.kill = 0
    assert upgrade_command.main([]) == 0
    assert kernel.modules == {"cgpu_km", NEW}


@pytest.mark.parametrize("step", range(3, 8))
def test_module_cold_killed_at_each_step(
    kernel: Kernel, tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """The command after a killed cold upgrade loads all that was unloaded, and configures it."""
    none_registered(kernel, tmp_path, monkeypatch, "0.0.9")
    configured: list[bool] = []

    def configure(_: object) -> None:
        kernel.commands.append("configure")
        configured.append(True)
        kernel.step()

    monkeypatch.setattr(apply, "apply", configure)
    monkeypatch.setattr(
        upgrade_module, "module_tree", lambda: Tree(str(kernel.tree)) if len(kernel.modules) == 2 else None
    )
    kernel.kill = step
    with pytest.raises(KilledError):
        upgrade_command.main(["--cold"])
    kernel.kill = 0
    (kernel.tree / "version").write_text(f"{__version__ if NEW in kernel.modules else '0.0.9'}\n")
    assert upgrade_command.main(["--cold"]) == 0
    assert kernel.modules == {"cgpu_km", NEW}
    assert configured
    assert not (tmp_path / "mark").exists()
    assert not mark.exists()


def test_module_cold_that_does_not_load(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    """Where the new core does not load, the one before runs again, with the configuration."""
    none_registered(kernel, tmp_path, monkeypatch, "0.0.9")
    monkeypatch.setattr(apply, "apply", lambda _: kernel.commands.append("configure"))
    kernel.refusals[f"modprobe {NEW}"] = "modprobe: ERROR: it fails today"
    assert upgrade_command.main(["--cold"]) == 1
    assert capsys.readouterr().err.endswith("it fails today; see: dmesg; core 0.0.9 runs again\n")
    assert kernel.modules == {"cgpu_km", "cgpu_core_0_0_9"}
    assert kernel.commands[-1] == "configure"
    assert not (tmp_path / "mark").exists()
