# SPDX-License-Identifier: Apache-2.0
"""The units of what runs beside an engine: cgpu-smi --publish, the wrapper's server and cgpu exporter."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from cgpu import paths
from cgpu.errors import CgpuError
from cgpu.install.places import (
    EXPORTER,
    KMOD,
    PUBLISHER,
    PUBLISHER_STARTS,
    SERVER,
    SERVER_STARTS,
    program,
)
from cgpu.runtime_config.oci_runtime import server
from cgpu.smi import publish
from tests.install.support import DAEMON, System, installer, snapshot
from tests.integration.commands import call

UNITS = "etc/systemd/system"
# systemd.exec(5): each of these gives a service a mount namespace of its own, or other files than others see.
OTHER_FILES = re.compile(
    r"(Protect|Private|ReadOnly|ReadWrite|Inaccessible|Exec|NoExec|Bind|TemporaryFileSystem|Root|Mount|"
    r"DynamicUser|ProcSubset|ExtensionImages|ExtensionDirectories|LogNamespace)(?!Start)"
)


NAMES = sorted(path.name for path in (KMOD / "units").iterdir())
# Settings since systemd 254: an older systemd says that it ignores them.
NEWER = ("'RestartSteps'", "'RestartMaxDelaySec'", "'FileDescriptorStorePreserve'")
# The highest exposure that `systemd-analyze security` may report, in tenths. Other units are of engines.
EXPOSURE = {"cgpu-exporter.service": 28, "cgpu-smi-publish.service": 25}


@dataclass(frozen=True)
class Service:
    """A service, the unit that starts it, and the commands about both. about: a word of both names."""

    name: str
    starts: str
    command: str
    about: str
    begin: tuple[str, ...]
    renew: str

    def commands(self, system: System) -> tuple[str, ...]:
        """Return the commands about these units which change something, and forget all commands."""
        found = tuple(line for line in system.commands if self.about in line and " is-" not in line)
        system.commands.clear()
        return found


SERVICES = (
    Service(
        PUBLISHER,
        PUBLISHER_STARTS,
        f"{program('cgpu-smi')} --publish",
        "smi-publish",
        (f"systemctl enable --now {PUBLISHER_STARTS}", f"systemctl start {PUBLISHER}"),
        f"systemctl try-restart {PUBLISHER_STARTS} {PUBLISHER}",
    ),
    Service(
        SERVER,
        SERVER_STARTS,
        str(program("cgpu-container-runtime-server")),
        "container-runtime",
        (f"systemctl enable --now {SERVER_STARTS}",),
        f"systemctl try-restart {SERVER_STARTS}",
    ),
)


def options(name: str) -> dict[str, str]:
    """Return the last value of each key of one of our units."""
    return dict(re.findall(r"^([A-Za-z]+)=(.*)$", (KMOD / "units" / name).read_text(), re.MULTILINE))


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_install_and_uninstall(root: Path, restored: Path, service: Service) -> None:
    """Both units are there, and nothing of them is left; the one that starts the other stops first."""
    system = System(root)
    installer(root, system).install(DAEMON)
    assert f"ExecStart={service.command}\n" in (root / UNITS / service.name).read_text()
    assert (root / UNITS / service.starts).exists()
    assert service.commands(system) == service.begin
    installed = snapshot(root)
    assert not installer(root, system).install(DAEMON)
    assert (service.commands(system), snapshot(root)) == ((), installed)
    installer(root, system).uninstall(None)
    assert service.commands(system) == (
        f"systemctl disable --now {service.starts}",
        f"systemctl stop {service.name}",
    )


@pytest.mark.parametrize("service", SERVICES, ids=lambda service: service.name)
def test_what_is_missing_comes_back(root: Path, service: Service) -> None:
    """Another install writes a unit that is gone and starts it anew, and enables one that is disabled."""
    system = System(root)
    installer(root, system).install(DAEMON)
    (root / UNITS / service.name).unlink()
    system.commands.clear()
    assert installer(root, system).install(DAEMON)
    assert service.commands(system) == (service.renew,)
    (root / "system/enabled" / service.starts).unlink()
    assert installer(root, system).install(DAEMON)
    assert service.commands(system) == service.begin


def test_units_of_a_package(root: Path) -> None:
    """Units of another folder are started by their names, and stay when the installation is taken back."""
    packaged = root / "usr/lib/systemd/system"
    packaged.mkdir(parents=True)
    names = [name for service in SERVICES for name in (service.name, service.starts)]
    for name in (*names, EXPORTER):
        (packaged / name).write_text("[Unit]\n")
    installer(root).install(DAEMON)
    installer(root).uninstall(None)
    assert all((packaged / name).exists() for name in (*names, EXPORTER))
    assert [name for name in names if (root / "system/enabled" / name).exists()] == []


def test_what_does_not_start(root: Path) -> None:
    """A publisher that fails to start leaves its command to the user; a closed socket fails the install."""
    with pytest.raises(CgpuError, match=SERVER_STARTS):
        installer(root, System(root, refuses=f"enable --now {SERVER_STARTS}")).install(DAEMON)
    installer(root).uninstall(None)
    one = installer(root, System(root, refuses=f"start {PUBLISHER}"))
    assert one.install(DAEMON)
    assert any(line.startswith(f"To do: systemctl start {PUBLISHER} (") for line in one.notes)


def test_a_socket_that_is_left(root: Path) -> None:
    """Uninstall removes the socket that a server started by hand has left in /run."""
    system = System(root)
    installer(root, system).install(DAEMON)
    (root / paths.RUNTIME_SOCKET.lstrip("/")).touch()
    installer(root, system).uninstall(None)
    assert not (root / paths.RUNTIME_SOCKET.lstrip("/")).exists()


def test_the_exporter(root: Path, restored: Path) -> None:
    """The exporter's unit is there, only the user enables it, and uninstall disables it."""
    system = System(root)
    installer(root, system).install(DAEMON)
    assert f"ExecStart={program('cgpu')} exporter\n" in (root / UNITS / EXPORTER).read_text()
    assert not any(EXPORTER in line for line in system.commands)
    (root / "system/enabled" / EXPORTER).touch()
    installer(root, system).uninstall(None)
    assert f"systemctl disable --now {EXPORTER}" in system.commands


def test_the_units_fit_the_programs() -> None:
    """The units name the files that the programs go by, and take from them what they do not need."""
    found = {**options(PUBLISHER_STARTS), **options(PUBLISHER)}
    assert found["PathChanged"] == paths.EFFECTIVE
    assert f"/run/{found['RuntimeDirectory']}" == str(publish.FOLDER)
    # These limits hold even if a container's name or a socket's answer takes the program over.
    assert found["CapabilityBoundingSet"] == "CAP_SYS_ADMIN"
    assert found["SystemCallFilter"] == "@system-service"
    assert {found[key] for key in ("NoNewPrivileges", "PrivateDevices", "PrivateNetwork")} == {"yes"}
    assert found["ProtectSystem"] == "strict"
    found = options(SERVER_STARTS)
    assert found["ListenSequentialPacket"] == paths.RUNTIME_SOCKET
    assert (found["SocketMode"], found["Backlog"]) == ("0600", str(server.BACKLOG))
    # With files, mounts or users of its own the server would refuse every caller.
    found = options(SERVER)
    assert [name for name in found if OTHER_FILES.match(name)] == []
    assert found["NoNewPrivileges"] == "yes"
    assert "CAP_MKNOD" not in found["CapabilityBoundingSet"]


# --- the units as systemd itself judges them ---


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the units, which start our commands where they are."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not there; install: apt-get install systemd")
    for name in NAMES:
        text = (KMOD / "units" / name).read_text()
        (tmp_path / name).write_text(text.replace("/usr/bin/cgpu", f"{Path(sys.executable).parent}/cgpu"))
    return tmp_path


def test_valid(folder: Path) -> None:
    """systemd knows every key and value, and finds every command."""
    done = call(["systemd-analyze", "verify", "--man=no", *(folder / name for name in NAMES)])
    lines = [line for line in done.stderr.splitlines() if not any(key in line for key in NEWER)]
    assert (done.returncode, lines) == (0, [])


@pytest.mark.parametrize("name", EXPOSURE)
def test_few_rights(folder: Path, name: str) -> None:
    """A unit that only reads the tree and talks to others has few rights beside that."""
    words = ["security", "--offline=true", f"--threshold={EXPOSURE[name]}", str(folder / name)]
    done = call(["systemd-analyze", *words])
    assert done.returncode == 0, done.stdout
