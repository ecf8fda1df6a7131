# SPDX-License-Identifier: Apache-2.0
"""The unit of cgpu exporter, which nobody but the user enables."""

from __future__ import annotations

from pathlib import Path

from cgpu.install.places import program
from tests.install.support import DAEMON, System, installer, snapshot

UNIT = "cgpu-exporter.service"
FILE = f"etc/systemd/system/{UNIT}"


def about(system: System) -> list[str]:
    """Return the commands about this unit."""
    return [line for line in system.commands if UNIT in line]


def test_install_and_uninstall(root: Path, restored: Path) -> None:
    """The unit is there and does not run; what the user has enabled ends when the node is taken back."""
    system = System(root)
    installer(root, system).install(DAEMON)
    assert f"ExecStart={program('cgpu')} exporter\n" in (root / FILE).read_text()
    assert about(system) == []
    installed = snapshot(root)
    assert not installer(root, system).install(DAEMON)
    assert snapshot(root) == installed
    (root / "system/enabled" / UNIT).touch()
    installer(root, system).uninstall(None)
    assert about(system) == [f"systemctl disable --now {UNIT}"]


def test_unit_of_a_package(root: Path) -> None:
    """A package's unit is the package's, also when it was enabled."""
    packaged = root / "usr/lib/systemd/system" / UNIT
    packaged.parent.mkdir(parents=True)
    packaged.write_text("[Unit]\n")
    system = System(root)
    installer(root, system).install(DAEMON)
    assert (root / FILE).exists()  # of this Python, which is not the package's
    assert packaged.exists()


def test_without_systemd(root: Path) -> None:
    """Nothing is made."""
    installer(root, System(root), systemd=False).install(DAEMON)
    assert not (root / FILE).exists()
