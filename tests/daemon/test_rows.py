# SPDX-License-Identifier: Apache-2.0
"""A driver version that a signed file has, which the table has not."""

from __future__ import annotations

from pathlib import Path

import pytest

from cgpu.check_driver.run import run
from cgpu.config.effective import Effective
from cgpu.errors import CgpuError
from cgpu.kmod.abi.generate import number_names, numbers_at, order_of
from cgpu.kmod.abi.rows import files
from cgpu.kmod.daemon.engine import Driver, Engine
from tests.abi.signer import Signer
from tests.check_driver.tables import TABLE
from tests.daemon.conftest import Drive, MakeDaemon
from tests.daemon.harness import MIB, Daemon

VERSION = "580.142.01"
# The driver has these layouts, which are not those of the newest version before it.
LAYOUTS = "590.48.01"
ROW = {"version": VERSION, "base": LAYOUTS}


@pytest.fixture
def signer(base: Path) -> Signer:
    return Signer(base)


def layout(daemon: Daemon) -> str:
    return str(daemon.status()["engine"]["layout"])


@pytest.mark.enforcement
def test_held_by_a_row(make_daemon: MakeDaemon, drive: Drive, signer: Signer) -> None:
    """A driver that would fail its check by older layouts is served by the row's, and the limit holds."""
    path = signer.give(ROW)
    drive(VERSION, LAYOUTS)
    daemon = make_daemon("T4", "")
    assert daemon.read("engine").endswith(" driver=row\n")
    assert (layout(daemon), "is not in the table" in daemon.log()) == ("row", False)
    sliced = daemon.slice(1, f"gpu=0:{64 * MIB}", "fill=2M", "expect=0x51", "alloc=2M")
    assert f"bytes={64 * MIB}" in sliced.succeeds()
    row = files.read(signer.node).of(VERSION)
    assert row is not None
    assert row.file == str(path)


def test_a_row_where_unknown_drivers_are_refused(
    make_daemon: MakeDaemon, drive: Drive, signer: Signer
) -> None:
    """By a row the version is known, whatever allow_unknown_driver says."""
    signer.give(ROW)
    drive(VERSION, LAYOUTS)
    assert layout(make_daemon("T4", "allow_unknown_driver: false\n")) == "row"


def test_a_changed_struct(make_daemon: MakeDaemon, drive: Drive, signer: Signer) -> None:
    """A row that names a base and what differs gives the layouts of the version that has the difference."""
    version = "530.30.01"
    structs = {"NV2080_CTRL_GPU_GET_INFO_V2_PARAMS": {"size": 508}}
    signer.give({"version": version, "base": "525.147.05", "structs": structs})
    drive(version, "530.30.02")
    daemon = make_daemon("T4", "")
    assert layout(daemon) == "row"
    outcome = run(str(daemon.run / "sim"), files.read(signer.node).text())
    assert (outcome.known, len(outcome.with_verdict("passed")) > 20, outcome.with_verdict("failed")) == (
        True,
        True,
        [],
    )


def test_attached_cards_by_the_layout(drive: Drive, base: Path) -> None:
    """The list of attached cards is read where the row says that it begins, which here is wrong."""
    drive(VERSION, LAYOUTS)
    numbers = numbers_at(TABLE, LAYOUTS)
    numbers[number_names(TABLE).index("NV0000_CTRL_GPU_GET_ATTACHED_IDS_PARAMS.gpuIds")] = 4
    row = " ".join(map(str, [VERSION, order_of(TABLE), *numbers]))
    with pytest.raises(CgpuError, match="nvidia0: the driver does not attach it"):
        Engine(Driver(str(base / "run" / "sim"), row), Effective())


def test_a_bad_file_leaves_the_node_as_it_was(make_daemon: MakeDaemon, drive: Drive, signer: Signer) -> None:
    """A driver with older layouts is served provisionally, and the log says what is wrong with the file."""
    path = signer.give(ROW)
    path.chmod(0o666)
    drive(VERSION)
    daemon = make_daemon("T4", "")
    assert (layout(daemon), daemon.read("engine").endswith(" driver=provisional\n")) == ("nearest", True)
    assert (
        f"{path}: -rw-rw-rw- of user 0: expected a file or folder that root alone can write" in daemon.log()
    )
    path.chmod(0o644)
    assert daemon.command("--stop").returncode == 0
    drive(VERSION, LAYOUTS)
    daemon.start()
    assert layout(daemon) == "row"


def test_containers_go_on_when_a_row_comes(make_daemon: MakeDaemon, drive: Drive, signer: Signer) -> None:
    """A daemon that starts anew takes a row that came meanwhile; containers keep their charges and limits."""
    drive(VERSION)
    daemon = make_daemon("T4", "")
    container = daemon.slice(1, f"gpu=0:{64 * MIB}", "alloc=2M", "hold", "fill=2M")
    container.line("alloc")
    signer.give({**ROW, "base": "580.142"})
    daemon.crash()
    assert (layout(daemon), daemon.used(container)) == ("row", 2 * MIB)
    assert f"bytes={62 * MIB}" in container.finish("\n")
