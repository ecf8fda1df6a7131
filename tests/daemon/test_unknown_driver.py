# SPDX-License-Identifier: Apache-2.0
"""A driver version that is not in the table: refused, or held after a self-test with older layouts."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cgpu.kmod.daemon.simulate import start_time
from tests.daemon.harness import BUILD, MIB, Daemon, eventually

VERSION = "580.159.04"
ALLOW = "allow_unknown_driver: true\n"
MakeDaemon = Callable[..., Daemon]
Drive = Callable[..., None]

pytestmark = pytest.mark.root


@pytest.fixture
def drive(base: Path) -> Iterator[Drive]:
    """Return a function that has a simulated card where the daemon finds its own: version, layouts, card."""
    servers: list[subprocess.Popen[bytes]] = []

    def serve(version: str, layouts: str = "580.142", cards: str = "T4") -> None:
        mount = base / "run" / "sim"
        mount.parent.mkdir(exist_ok=True)
        command: list[str | Path] = [BUILD / "cgpu-sim", "--mount", mount, "--cards", cards]
        servers.append(subprocess.Popen([*command, "--driver", layouts, "--says", version]))
        record = {"pid": servers[-1].pid, "started": start_time(servers[-1].pid), "cards": cards}
        mount.with_name("sim.json").write_text(json.dumps(record))
        eventually((mount / "nvidiactl").exists, "the card is served")

    yield serve
    for server in servers:
        server.terminate()
        server.wait()


def test_refused_by_name(base: Path, drive: Drive) -> None:
    """Without the key the daemon does not start, and names the version and the key."""
    drive(VERSION)
    with pytest.raises(
        AssertionError, match=f"driver version {VERSION} is unknown.*allow_unknown_driver: true"
    ):
        Daemon(base)


@pytest.mark.enforcement
def test_held_when_allowed(make_daemon: MakeDaemon, drive: Drive) -> None:
    """With the key it runs with the layouts of the last version before it, says so, and holds the limit."""
    drive(VERSION)
    daemon = make_daemon("T4", ALLOW)
    status = daemon.status()["engine"]
    assert (status["driver"], status["layout"]) == (VERSION, "nearest")
    sliced = daemon.slice(1, f"gpu=0:{64 * MIB}", "fill=2M", "expect=0x51", "alloc=2M")
    assert f"bytes={64 * MIB}" in sliced.finish()
    assert sliced.process.returncode == 0


def test_what_passed_is_logged(make_daemon: MakeDaemon, drive: Drive) -> None:
    """The log names the version, the table's version, and how many checks passed; each start checks anew."""
    drive(VERSION)
    daemon = make_daemon("T4", ALLOW)
    line = f"driver {VERSION} is not in the table: 26 checks passed with the layouts of 580.142\n"
    assert daemon.log().count(line) == 1
    assert daemon.command("--stop").returncode == 0
    drive(VERSION)
    daemon.start()
    assert daemon.log().count(line) == 2


def test_known_versions_are_not_tested(make_daemon: MakeDaemon, drive: Drive) -> None:
    """With the key and a version of the table nothing is tested, whatever the layouts."""
    drive("580.142")
    daemon = make_daemon("T4", ALLOW)
    assert "is not in the table" not in daemon.log()
    assert daemon.status()["engine"]["layout"] == "exact"


@pytest.mark.parametrize(
    ("version", "layouts", "failed"),
    [
        ("520.99.01", "535.183.01", "client, device and subdevice by NVOS64: client: Invalid argument"),
        (VERSION, "590.48.01", "calls of nvidia-uvm: UVM_FREE of 24 bytes"),
        ("575.99.01", "580.142", "identity of the card: MIG mode: status 0x1f"),
        ("560.99.01", "570.211.01", "parameters of classes: channel: the driver's structure is longer"),
    ],
)
def test_other_layouts_are_refused(base: Path, drive: Drive, version: str, layouts: str, failed: str) -> None:
    """An unknown version whose layouts are others does not start: version, card, check and help in a line."""
    drive(version, layouts)
    with pytest.raises(AssertionError) as refused:
        Daemon(base, "T4", ALLOW)
    line = str(refused.value).splitlines()[0]
    assert line.startswith(f"cgpud: driver version {version} is unknown and has not the layouts of ")
    assert f"{base}/run/sim/nvidia0: {failed}" in line
    assert line.endswith("take a driver of the table, or a newer OpenCGPU; all checks: cgpu check-driver")
    assert not (base / "tree" / "version").exists()


def test_nothing_to_test_on(base: Path, drive: Drive) -> None:
    """Where no card can be tested, an unknown version is refused."""
    drive(VERSION, cards="H200/mig=0")
    with pytest.raises(AssertionError, match=f"driver version {VERSION}: cards in MIG mode tell too little"):
        Daemon(base, "H200/mig=0", ALLOW)
