# SPDX-License-Identifier: Apache-2.0
"""The units that start cgpu-container-runtime-server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cgpu import paths
from cgpu.errors import CgpuError
from cgpu.install.places import KMOD, SERVER, SERVER_STARTS, program
from cgpu.install.plan.server import PROGRAM
from cgpu.runtime_config.oci_runtime import server
from tests.install.support import DAEMON, System, installer, snapshot

UNITS = "etc/systemd/system"
COMMANDS = [f"systemctl enable --now {SERVER_STARTS}"]
# systemd.exec(5): each of these gives a service a mount namespace of its own, or other files than others see.
OTHER_FILES = re.compile(
    r"(Protect|Private|ReadOnly|ReadWrite|Inaccessible|Exec|NoExec|Bind|TemporaryFileSystem|Root|Mount|"
    r"DynamicUser|ProcSubset|ExtensionImages|ExtensionDirectories|LogNamespace)(?!Start)"
)


def about(system: System) -> list[str]:
    """Return the commands about these units which change something."""
    return [line for line in system.commands if "container-runtime" in line and " is-" not in line]


def options(name: str) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z]+)=(.*)$", (KMOD / "units" / name).read_text(), re.MULTILINE))


def test_install_and_uninstall(root: Path, restored: Path) -> None:
    """Both units are there, and nothing of them is left; the socket closes before its service stops."""
    system = System(root)
    installer(root, system).install(DAEMON)
    assert f"ExecStart={program(PROGRAM)}\n" in (root / UNITS / SERVER).read_text()
    assert (root / UNITS / SERVER_STARTS).exists()
    assert about(system) == COMMANDS
    installed = snapshot(root)
    system.commands.clear()
    assert not installer(root, system).install(DAEMON)
    assert (about(system), snapshot(root)) == ([], installed)
    installer(root, system).uninstall(None)
    assert about(system) == [f"systemctl disable --now {SERVER_STARTS}", f"systemctl stop {SERVER}"]


def test_a_socket_that_is_left(root: Path) -> None:
    """What a server that was started by hand has left in /run goes with the installation."""
    system = System(root)
    installer(root, system).install(DAEMON)
    left = root / paths.RUNTIME_SOCKET.lstrip("/")
    left.touch()
    installer(root, system).uninstall(None)
    assert about(system)[-1] == f"rm -f {paths.RUNTIME_SOCKET}"


def test_a_node_from_before(root: Path) -> None:
    """Another install gives the units to a node that has its engine, and starts anew what has changed."""
    system = System(root)
    installer(root, system).install(DAEMON)
    (root / UNITS / SERVER).unlink()
    system.commands.clear()
    assert installer(root, system).install(DAEMON)
    assert about(system) == [f"systemctl try-restart {SERVER_STARTS}"]
    (root / "system/enabled" / SERVER_STARTS).unlink()
    system.commands.clear()
    assert installer(root, system).install(DAEMON)
    assert about(system) == COMMANDS


def test_a_socket_that_cannot_be_opened(root: Path, restored: Path) -> None:
    """The installation is taken back."""
    with pytest.raises(CgpuError, match=SERVER_STARTS):
        installer(root, System(root, refuses=f"enable --now {SERVER_STARTS}")).install(DAEMON)


def test_units_of_a_package(root: Path) -> None:
    """Units of another folder are started by their names, and stay when the installation is taken back."""
    packaged = root / "usr/lib/systemd/system"
    packaged.mkdir(parents=True)
    for name in (SERVER, SERVER_STARTS):
        (packaged / name).write_text("[Unit]\n")
    system = System(root)
    installer(root, system).install(DAEMON)
    installer(root, system).uninstall(None)
    assert (packaged / SERVER).exists()
    assert not (root / "system/enabled" / SERVER_STARTS).exists()


def test_without_systemd(root: Path) -> None:
    """Nothing is made, and nothing is run: each start takes a Python of its own."""
    system = System(root)
    installer(root, system, systemd=False).install(DAEMON)
    assert (about(system), list((root / UNITS).glob("cgpu*"))) == ([], [])


def test_the_units_fit_the_program() -> None:
    """The socket is where the program's own would be, and root's alone."""
    found = options(SERVER_STARTS)
    assert found["ListenSequentialPacket"] == paths.RUNTIME_SOCKET
    assert (found["SocketMode"], found["Backlog"]) == ("0600", str(server.BACKLOG))


def test_the_server_sees_what_others_see() -> None:
    """No option gives it files, mounts or users of its own: it would refuse every caller."""
    found = options(SERVER)
    assert [name for name in found if OTHER_FILES.match(name)] == []
    assert found["NoNewPrivileges"] == "yes"
    assert "CAP_MKNOD" not in found["CapabilityBoundingSet"]
