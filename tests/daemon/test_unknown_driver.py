# SPDX-License-Identifier: Apache-2.0
"""A driver version that is not in the table: refused, or held after a self-test with older layouts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cgpu.check_driver import run as run_module
from cgpu.check_driver.run import CheckError, assure_unknown
from cgpu.kmod.daemon import driver_check
from tests.check_driver.tables import DUPLICATES
from tests.daemon.conftest import Drive, MakeDaemon
from tests.daemon.harness import MIB, Daemon, piped
from tests.integration.commands import eventually

VERSION = "580.142.01"
RECORD = "driver-passed.json"
FILL = ("fill=64M", "fill=2M", "fill=64K")


def test_refused_by_name(base: Path, drive: Drive) -> None:
    """Where it is not allowed the daemon does not start, and names the version and the key."""
    drive(VERSION)
    with pytest.raises(
        AssertionError, match=f"driver version {VERSION} is not in the table.*allow_unknown_driver: true"
    ):
        Daemon(base, config="allow_unknown_driver: false\n")


@pytest.mark.enforcement
def test_held_when_allowed(make_daemon: MakeDaemon, drive: Drive) -> None:
    """The daemon runs with the layouts of the last version before it, and holds the limit.

    The log says so of each start. A stop with nothing to hand over leaves nothing of what has passed.
    """
    drive(VERSION)
    daemon = make_daemon("T4")
    status = daemon.status()["engine"]
    assert (status["driver"], status["layout"]) == (VERSION, "nearest")
    assert daemon.read("engine").endswith(" driver=provisional\n")
    sliced = daemon.slice(1, f"gpu=0:{64 * MIB}", "fill=2M", "expect=0x51", "alloc=2M")
    assert f"bytes={64 * MIB}" in sliced.succeeds()
    eventually(lambda: daemon.instances() == [], "the container has gone")
    card = daemon.run / "sim" / "nvidia0"
    skipped = ", ".join(f"{card}: {name}" for name in DUPLICATES)
    line = (
        f"driver {VERSION} is not in the table: 23 checks passed with the layouts of 580.142; "
        f"skipped: {skipped}\n"
    )
    assert daemon.log().count(line) == 1
    assert (daemon.run / RECORD).exists()
    assert daemon.command("--stop").returncode == 0
    assert not (daemon.run / RECORD).exists()
    drive(VERSION)
    daemon.start()
    assert daemon.log().count(line) == 2


def test_known_versions_are_not_tested(make_daemon: MakeDaemon, drive: Drive) -> None:
    """With a version of the table nothing is tested, under any layouts."""
    drive("580.142")
    daemon = make_daemon("T4")
    assert "is not in the table" not in daemon.log()
    assert daemon.status()["engine"]["layout"] == "exact"


class Full:
    """A daemon that serves a container, on a card of which another process then has all the rest."""

    def __init__(self, daemon: Daemon) -> None:
        """Start all three, and stop the daemon; its check finds no memory at the next start."""
        self.daemon = daemon
        self.container = daemon.slice(1, f"gpu=0:{64 * MIB}", "alloc=2M", "hold", "free=all", "alloc=2M")
        self.container.line("alloc")
        self.record = daemon.run / RECORD
        assert self.record.stat().st_mode & 0o777 == 0o600
        assert daemon.command("--stop").returncode == 0
        self.other = piped(daemon.outside(*FILL, "hold"))
        assert self.other.stdout is not None
        for _ in FILL:
            assert self.other.stdout.readline().startswith("fill")

    def end(self) -> None:
        self.other.communicate("\n", timeout=60)

    def refusal(self) -> str:
        with pytest.raises(AssertionError) as refused:
            self.daemon.start()
        return str(refused.value).splitlines()[0]


@pytest.fixture
def full(make_daemon: MakeDaemon, drive: Drive) -> Iterator[Full]:
    """Return a daemon whose driver was checked, and does not pass again."""
    drive(VERSION, cards="T4=1024")
    found = Full(make_daemon("T4=1024"))
    yield found
    found.end()


def test_containers_are_served_on(full: Full) -> None:
    """A passed check counts for containers that run: one that fails at a restart is logged."""
    full.daemon.start()
    assert full.daemon.used(full.container) == 2 * MIB
    full.container.finish("\n")
    assert full.container.process.returncode == 0
    (line,) = [line for line in full.daemon.log().splitlines() if "serving all the same" in line]
    assert f"driver version {VERSION} is unknown and has not the layouts of 580.142: " in line
    assert line.endswith("it passed earlier in this boot, and 1 containers count on it")


def test_nobody_to_serve(full: Full) -> None:
    """A check that fails is a refusal where containers ran with another version, or where there are none."""
    text = full.record.read_text()
    full.record.write_text(text.replace(VERSION, "580.142.02"))
    assert "has not the layouts of 580.142" in full.refusal()
    full.record.write_text(text)
    full.container.kill()
    assert "has not the layouts of 580.142" in full.refusal()
    assert "serving all the same" not in full.daemon.log()


WRONG: list[Callable[[dict[str, str]], str]] = [
    lambda record: json.dumps({**record, "driver": "580.142.02"}),
    lambda record: json.dumps({**record, "table": "580.126.09"}),
    lambda record: json.dumps({**record, "boot": "0" * 36}),
    lambda record: json.dumps({**record, "dev": "/dev"}),
    lambda record: json.dumps({**record, "more": ""}),
    lambda record: json.dumps({**record, "table": None}),
    lambda record: json.dumps(record) + " " * 1024,
    lambda record: json.dumps(record)[:-1],
    lambda _: "[" * 1000,
    lambda _: "",
]


def test_only_what_passed_counts(full: Full) -> None:
    """With another version, table, boot or card kept, or a partial record, it refuses."""
    root, text = str(full.daemon.run / "sim"), full.record.read_text()
    for wrong in WRONG:
        full.record.write_text(wrong(json.loads(text)))
        with pytest.raises(CheckError, match="has not the layouts of 580"):
            driver_check.check(root, full.record, taken_up=True)
    full.record.write_text(text)
    full.record.chmod(0o620)
    with pytest.raises(CheckError, match="has not the layouts of 580"):
        driver_check.check(root, full.record, taken_up=True)
    full.record.chmod(0o600)
    checked = driver_check.check(root, full.record, taken_up=True)
    assert checked is not None
    assert checked.driver == VERSION


def test_containers_and_a_check_without_end(full: Full, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the check does not end, as when the driver is busy, the version that it told counts as well."""
    monkeypatch.setattr(run_module, "CHECK_S", 3.0)
    program = full.daemon.run / "program"
    program.write_text(f"#!/bin/sh\nprintf 'driver\\t{VERSION}\\tunknown\\t580.142\\n'; exec sleep 600\n")
    program.chmod(0o700)
    monkeypatch.setattr(driver_check, "assure_unknown", lambda dev, rows: assure_unknown(dev, rows, program))
    root = str(full.daemon.run / "sim")
    checked = driver_check.check(root, full.record, taken_up=True)
    assert checked is not None
    assert (checked.driver, str(checked.failure)[:32]) == (VERSION, "the driver's check did not end: ")
    with pytest.raises(CheckError, match="did not end"):
        driver_check.expect({"driver": VERSION, "layout": "nearest"}, checked, containers=0)
    with pytest.raises(CheckError, match="did not end"):
        driver_check.check(root, full.record, taken_up=False)


def test_other_layouts_are_refused(base: Path, drive: Drive) -> None:
    """An unknown version whose layouts are others does not start: version, card, check and help in a line."""
    drive(VERSION, "590.48.01")
    with pytest.raises(AssertionError) as refused:
        Daemon(base, "T4")
    line = str(refused.value).splitlines()[0]
    assert line.startswith(f"cgpud: driver version {VERSION} is unknown and has not the layouts of 580.142")
    assert f"{base}/run/sim/nvidia0: calls of nvidia-uvm: UVM_FREE of 24 bytes" in line
    assert line.endswith("take a driver of the table, or a newer OpenCGPU; all checks: cgpu check-driver")
    assert not (base / "tree" / "version").exists()


def test_nothing_to_test_on(base: Path, drive: Drive) -> None:
    """Where no card can be tested, an unknown version is refused."""
    drive(VERSION, cards="H200/mig=0")
    with pytest.raises(AssertionError, match=f"driver version {VERSION}: cards in MIG mode tell too little"):
        Daemon(base, "H200/mig=0")
