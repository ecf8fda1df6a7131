# SPDX-License-Identifier: Apache-2.0
"""The steps of the module engine. Real dkms and modprobe run in tests/vm/install/test_installer.py."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from cgpu import __version__
from cgpu.errors import CgpuError
from cgpu.install.installer import Installer, Request
from cgpu.install.node.machine import Node
from cgpu.install.places import program
from cgpu.install.runner import TIMEOUT_S, Done, SystemRunner
from tests.install import faults
from tests.install.support import System, installer, snapshot

MODULE = Request("module", ("seal",))
CORE = f"cgpu_core_{__version__.replace('.', '_')}"
SOURCES = f"usr/src/opencgpu-{__version__}"


class Kernel(System):
    """The same node with dkms and a kernel that loads what dkms has built."""

    def run(self, words: Sequence[str], timeout: float = TIMEOUT_S) -> Done:
        built = self.root / "var/lib/dkms/opencgpu" / __version__
        loaded = [self.root / "sys/module" / name for name in ("cgpu_km", CORE)]
        if words[0] == "make":
            return SystemRunner().run(words)
        if words[0] not in ("dkms", "modprobe", "rmmod", str(program("cgpu-config-apply"))):
            return super().run(words)
        line = " ".join(words)
        self.commands.append(line)
        if self.refuses and self.refuses in line:
            return Done(1, f"{line}: does not work today\n")
        match words[:2]:
            case ("dkms", "install") if words[5] == __version__:
                assert (self.root / SOURCES / "dkms.conf").exists()
                built.mkdir(parents=True, exist_ok=True)
            case ("dkms", "remove"):
                shutil.rmtree(built.parent / words[5])
                if not os.listdir(built.parent):
                    built.parent.rmdir()
            case ("modprobe", _):
                assert built.exists()
                for path in loaded:
                    path.mkdir(parents=True)
            case ("rmmod", name):
                (self.root / "sys/module" / name).rmdir()
        return Done(0, "")


def module_installer(root: Path, kernel: Kernel | None = None, *, systemd: bool = True) -> Installer:
    """Return the installer of a node that can take the module."""
    one = installer(root, kernel or Kernel(root), systemd=systemd)
    gather = one.gather

    def facts_now() -> Node:
        node = gather()
        found = replace(
            node.kernel, secure_boot=False, lockdown=None, enforces_signatures=False, options=None,
            kprobes=None, ftrace=True,
        )  # fmt: skip
        loaded = (root / "sys/module/cgpu_km").exists()
        kernels = ("6.1.0-56-amd64",) if (root / "var/lib/dkms/opencgpu").exists() else ()
        return replace(
            node, kernel=found, ours=replace(node.ours, module_loaded=loaded, module_kernels=kernels)
        )

    one.gather = facts_now
    return one


@pytest.fixture
def root(root: Path) -> Path:
    """Return a node that can take a module, too."""
    for name in ("usr/src", "sys/module", "etc/modprobe.d", "etc/modules-load.d", "var/lib/dkms"):
        (root / name).mkdir(parents=True)
    return root


def test_all_steps_and_back(root: Path, restored: Path) -> None:
    """Sources, build, settings, load, configuration, runtime, in this order; and all of it back."""
    kernel = Kernel(root)
    assert module_installer(root, kernel).install(MODULE)
    done = [line for line in kernel.commands if " is-" not in line]
    assert done == [
        f"dkms install -m opencgpu -v {__version__} -k 6.1.0-56-amd64",
        "systemctl daemon-reload",
        "modprobe cgpu_km",
        "systemctl enable --now cgpu-config-apply.service",
        "systemctl enable --now cgpu-smi-publish.path",
        "systemctl start cgpu-smi-publish.service",
        "systemctl enable --now cgpu-container-runtime.socket",
    ]
    assert (root / SOURCES / "module/main.c").exists()
    assert (root / "etc/modules-load.d/cgpu.conf").read_text().endswith("\ncgpu_km\n")
    unit = (root / "etc/systemd/system/cgpu-config-apply.service").read_text()
    assert f"ExecStart={program('cgpu-config-apply')}\n" in unit
    assert (root / "var/lib/cgpu/install").stat().st_mode & 0o777 == 0o700
    installed = snapshot(root)
    assert not module_installer(root).install(MODULE)
    assert snapshot(root) == installed
    devices = root / "run/cdi/opencgpu.json"  # as cgpu-config-apply writes it
    devices.parent.mkdir()
    devices.write_text("{}")
    assert "+ rm /run/cdi/opencgpu.json" in module_installer(root).show_uninstall()
    kernel.commands.clear()
    module_installer(root, kernel).uninstall(None)
    assert [line for line in kernel.commands if " is-" not in line and " show " not in line] == [
        "systemctl disable --now cgpu-container-runtime.socket",
        "systemctl stop cgpu-container-runtime.service",
        "systemctl disable --now cgpu-smi-publish.path",
        "systemctl stop cgpu-smi-publish.service",
        "systemctl disable --now cgpu-config-apply.service",
        f"rmmod {CORE}",
        "rmmod cgpu_km",
        "systemctl daemon-reload",
        f"dkms remove -m opencgpu -v {__version__} --all",
    ]
    assert list(devices.parent.iterdir()) == []
    devices.parent.rmdir()


def test_devices_of_a_daemon_stay(root: Path) -> None:
    """The file that describes GPUs to container engines is by then cgpud's, where that runs."""
    module_installer(root).install(MODULE)
    devices = root / "run/cdi/opencgpu.json"
    for path in (devices, root / "run/cgpu/control.sock"):
        path.parent.mkdir()
        path.write_text("{}")
    module_installer(root).uninstall(None)
    assert devices.exists()


def test_uninstall_after_an_upgrade(root: Path, restored: Path) -> None:
    """The core that is loaded by now is unloaded, whatever version it has, and no mark is left."""
    kernel = Kernel(root)
    module_installer(root, kernel).install(MODULE)
    (root / "sys/module" / CORE).rename(root / "sys/module/cgpu_core_9_9_9")
    (root / "run/cgpu-upgrading").touch()
    module_installer(root, kernel).uninstall(None)
    assert [line for line in kernel.commands if line.startswith("rmmod")] == [
        "rmmod cgpu_core_9_9_9",
        "rmmod cgpu_km",
    ]


def test_over_another_version(root: Path) -> None:
    """Another version that dkms has leaves the kernel's folder before ours is built, if it can."""
    (root / "var/lib/dkms/opencgpu/0.0.9/6.1.0-56-amd64").mkdir(parents=True)
    (root / "var/lib/dkms/opencgpu/0.0.9/5.0").mkdir()
    before = snapshot(root)
    old, new = (f"-m opencgpu -v {version} -k 6.1.0-56-amd64" for version in ("0.0.9", __version__))
    kernel = Kernel(root, f"dkms uninstall {old}")
    one = module_installer(root, kernel)
    one.install(MODULE)
    assert [line for line in kernel.commands if line.startswith("dkms")] == [
        f"dkms uninstall {old}",
        f"dkms install {new}",
    ]
    assert [line for line in one.notes if line.startswith(f"To do: dkms uninstall {old} (")]
    module_installer(root).uninstall(None)
    assert snapshot(root) == before


@pytest.mark.parametrize("mask", [0o002, 0o000, 0o077])
def test_any_umask(root: Path, restored: Path, mask: int) -> None:
    """The next command trusts the record, whatever root's umask is."""
    umask = os.umask(mask)
    try:
        module_installer(root).install(MODULE)
        module_installer(root).uninstall(None)
    finally:
        os.umask(umask)


@pytest.mark.parametrize("command", ["dkms install", "modprobe", "enable"])
def test_a_failure(root: Path, restored: Path, command: str) -> None:
    """Where the build, the load or the configuration fails, the same command goes on there."""
    with pytest.raises(CgpuError, match=f"{command}.*does not work today; what was done stays"):
        module_installer(root, Kernel(root, command)).install(MODULE)
    kernel = Kernel(root)
    assert module_installer(root, kernel).install(MODULE)
    first = next(line for line in kernel.commands if " is-" not in line)
    assert command in first
    assert not module_installer(root).install(MODULE)
    module_installer(root).uninstall(None)


def test_killed_at_some_calls(root: Path) -> None:
    """Killed while it copies, builds or loads: the next command goes on, and all of it can be taken back."""
    before = snapshot(root)
    calls = faults.count(lambda: module_installer(root).install(MODULE))
    module_installer(root).uninstall(None)
    for at in range(5, calls, calls // 9):
        assert faults.in_child(lambda: module_installer(root).install(MODULE), at)
        module_installer(root).install(MODULE)
        assert not module_installer(root).install(MODULE)
        module_installer(root).uninstall(None)
        assert snapshot(root) == before, f"call {at}"


def test_without_systemd(root: Path) -> None:
    """The module is loaded at once; what configures it, and what each boot takes, is said."""
    kernel = Kernel(root)
    one = module_installer(root, kernel, systemd=False)
    one.install(MODULE)
    apply = str(program("cgpu-config-apply"))
    assert kernel.commands[-1] == "modprobe cgpu_km"
    assert f"To do: {apply}; and after each boot: modprobe cgpu_km && {apply}" in one.notes
    assert not (root / "etc/modules-load.d/cgpu.conf").exists()
