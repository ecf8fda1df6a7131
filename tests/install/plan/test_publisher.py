# SPDX-License-Identifier: Apache-2.0
"""The units that start cgpu-smi --publish."""

from __future__ import annotations

import re
from pathlib import Path

from cgpu import paths
from cgpu.install.places import KMOD, PUBLISHER, PUBLISHER_STARTS, program
from cgpu.smi import publish
from tests.install.support import DAEMON, System, installer, snapshot

UNITS = "etc/systemd/system"
COMMANDS = [
    f"systemctl enable --now {PUBLISHER_STARTS}",
    f"systemctl start {PUBLISHER}",
]


def about(system: System) -> list[str]:
    """Return the commands about these units which change something."""
    return [line for line in system.commands if "smi-publish" in line and " is-" not in line]


def test_install_and_uninstall(root: Path, restored: Path) -> None:
    """Both units are there, and nothing of them is left; the one that starts the other stops first."""
    system = System(root)
    installer(root, system).install(DAEMON)
    service = (root / UNITS / PUBLISHER).read_text()
    assert f"ExecStart={program('cgpu-smi')} --publish\n" in service
    assert (root / UNITS / PUBLISHER_STARTS).exists()
    assert about(system) == COMMANDS
    installed = snapshot(root)
    system.commands.clear()
    assert not installer(root, system).install(DAEMON)
    assert (about(system), snapshot(root)) == ([], installed)
    installer(root, system).uninstall(None)
    assert about(system) == [
        f"systemctl disable --now {PUBLISHER_STARTS}",
        f"systemctl stop {PUBLISHER}",
    ]


def test_a_node_from_before(root: Path) -> None:
    """Another install gives the units to a node that has its engine, and starts anew what has changed."""
    system = System(root)
    installer(root, system).install(DAEMON)
    old = root / UNITS / PUBLISHER
    record = root / "var/lib/cgpu/install"
    assert record.is_dir()
    old.unlink()
    system.commands.clear()
    assert installer(root, system).install(DAEMON)
    assert about(system) == [f"systemctl try-restart {PUBLISHER_STARTS} {PUBLISHER}"]
    (root / "system/enabled" / PUBLISHER_STARTS).unlink()
    system.commands.clear()
    assert installer(root, system).install(DAEMON)
    assert about(system) == COMMANDS


def test_units_of_a_package(root: Path) -> None:
    """Units of another folder are started by their names, and stay when the installation is taken back."""
    packaged = root / "usr/lib/systemd/system"
    packaged.mkdir(parents=True)
    for name in (PUBLISHER, PUBLISHER_STARTS):
        (packaged / name).write_text("[Unit]\n")
    system = System(root)
    installer(root, system).install(DAEMON)
    installer(root, system).uninstall(None)
    assert (packaged / PUBLISHER).exists()
    assert not (root / "system/enabled" / PUBLISHER_STARTS).exists()


def test_it_does_not_keep_a_node_from_being_installed(root: Path) -> None:
    """What users see is not worth a failure: the command is left to the user."""
    one = installer(root, System(root, refuses=f"start {PUBLISHER}"))
    assert one.install(DAEMON)
    assert any(line.startswith(f"To do: systemctl start {PUBLISHER} (") for line in one.notes)


def test_without_systemd(root: Path) -> None:
    """Nothing is made, and nothing is run."""
    system = System(root)
    installer(root, system, systemd=False).install(DAEMON)
    assert (about(system), list((root / UNITS).glob("cgpu*"))) == ([], [])


def test_the_units_fit_the_program() -> None:
    """The units name the file that the program goes by, and the folder that it writes."""
    units = [(KMOD / "units" / name).read_text() for name in (PUBLISHER_STARTS, PUBLISHER)]
    options = dict(re.findall(r"^([A-Za-z]+)=(.*)$", "".join(units), re.MULTILINE))
    assert options["PathChanged"] == paths.EFFECTIVE
    assert f"/run/{options['RuntimeDirectory']}" == str(publish.FOLDER)
    # Whatever a container's name or a socket's answer does to the program, these are out of its reach.
    assert options["CapabilityBoundingSet"] == "CAP_SYS_ADMIN"
    assert options["SystemCallFilter"] == "@system-service"
    assert {options[key] for key in ("NoNewPrivileges", "PrivateDevices", "PrivateNetwork")} == {"yes"}
    assert options["ProtectSystem"] == "strict"
