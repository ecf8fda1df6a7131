# SPDX-License-Identifier: Apache-2.0
"""Rows for a driver outside of the table change no layouts under containers, nor under their calls."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from cgpu import paths
from cgpu.kmod.abi.generate import DATA
from cgpu.kmod.abi.rows.files import KEYS, ROWS
from cgpu.kmod.abi.rows.row import line_of
from tests.abi.signer import Signer
from tests.integration.commands import eventually
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import (
    CONFIGURATION,
    build_core,
    insmod,
    load_driver,
    load_engine,
    pass_check,
    read,
    rmmod,
    unload_driver,
    unload_engine,
)
from tests.vm.harness.process import Process
from tests.vm.harness.slices import Slice, clear, holds_core, set_knob, slice_of
from tests.vm.harness.store import put
from tests.vm.install.test_config_apply import apply
from tests.vm.life.test_upgrade import NEW, parked, upgrade
from tests.vm.life.test_versions import UNKNOWN, await_engine, give_row, limited

pytestmark = [pytest.mark.two_cpus, pytest.mark.fake_driver("other versions of the driver")]

ROW = {"version": UNKNOWN, "base": "615.71.09"}
NEWEST = (615, 71, 9)
# A write of the upgrade node waits for the call in flight, with the lock for which the others queue.
OUTRUN = """
exec 3<>/proc/cgpu_km/inst_ctl
echo 3000 >/sys/module/cgpu_km/parameters/upgrade_timeout_ms
echo 1 >/proc/cgpu_km/upgrade & /bin/busybox sleep 0.7
mkdir -p /sys/fs/cgroup/late
/bin/busybox sleep 100000 </dev/null >/dev/null 2>&1 &
echo $! >/sys/fs/cgroup/late/cgroup.procs
echo "create id=late pid=$! gpu=0:1073741824" >&3 & register=$!
/bin/busybox sleep 0.7
dd if=/tmp/row of=/sys/module/cgpu_km/parameters/driver_row bs=4096
wait $register
echo 200 >/sys/module/cgpu_km/parameters/upgrade_timeout_ms
"""


def line() -> str:
    return line_of(json.dumps(ROW).encode(), json.loads(DATA.read_text()))[1]


def source(machine: Machine) -> str:
    """Return whose layouts the driver has, as the tree says."""
    return read(machine, "engine").partition("driver=")[2].strip()


@pytest.fixture
def node(machine: Machine, module: Path) -> Iterator[Machine]:
    """Return the machine with engine and an unknown driver that has passed its check."""
    load_engine(machine)
    load_driver(machine, version=UNKNOWN)
    pass_check(machine, UNKNOWN)
    yield machine
    set_knob(machine, "test_sleep_ms", 0)
    clear(machine)
    unload_driver(machine)
    unload_engine(machine)


@pytest.fixture
def in_flight(node: Machine) -> Iterator[Process]:
    """Return a process of which the engine knows no more, as it was moved: a call of it is in the driver."""
    tenant = slice_of(node, "tenant")
    call = parked(node, tenant)
    node.shell("for pid in $(pidof cgpu-probe); do echo $pid >/sys/fs/cgroup/cgroup.procs; done")
    tenant.end()
    tenant.await_gone()
    eventually(lambda: not holds_core(node), "the container is forgotten", node.scaled(10))
    yield call
    set_knob(node, "test_sleep_ms", 0)
    call.stop()


def outrun(machine: Machine) -> Slice:
    """Have a container registered between the write of a row and the work that takes it."""
    insmod(machine, build_core(machine, "0.2.0", "-DCORE_VERSION=2u -DCORE_CONVERTS_FROM=1u"))
    machine.write_file("/tmp/row", f"{line()}\n")
    machine.shell(OUTRUN, timeout=machine.scaled(60))
    rmmod(machine, "cgpu_core_0_2_0")
    set_knob(machine, "test_sleep_ms", 0)
    late = Slice(machine, "late")
    assert (source(machine), late.registered()) == ("provisional", True)
    return late


def test_no_row_under_a_call_in_flight(node: Machine, in_flight: Process) -> None:
    """While a call of a removed container is in the driver, layouts stay; afterwards the row is taken."""
    give_row(node, line())
    node.shell("/bin/busybox sleep 2")
    assert source(node) == "provisional"
    set_knob(node, "test_sleep_ms", 0)
    in_flight.await_output("alloc ")
    give_row(node, line())
    await_engine(node, "driver=row")


@pytest.mark.enforcement
def test_a_row_that_a_container_outran(node: Machine, in_flight: Process) -> None:
    """It is not taken under the container, by an upgrade neither; its next write without one is."""
    late = outrun(node)
    in_flight.await_output("alloc ")
    in_flight.stop()
    insmod(node, build_core(node, "0.1.1"))
    assert upgrade(node) == ""
    assert (source(node), limited(late)) == ("provisional", True)
    assert give_row(node, line(), check=False).returncode != 0
    clear(node)
    give_row(node, line())
    await_engine(node, "driver=row")


def test_no_upgrade_to_other_layouts(node: Machine) -> None:
    """A core whose table has other layouts for the driver does not take over while a container runs."""
    newest = struct.pack("<3H", *NEWEST)
    core = build_core(node, "0.1.1")
    data = bytearray(core.read_bytes())
    assert data.count(newest) == 1
    at = data.index(newest)
    # The oldest layouts are the first.
    data[at : at + 10] = struct.pack("<5H", 999, 99, 0, 0, 1)
    put(changed := core.with_name("other_layouts.ko"), bytes(data))
    tenant = slice_of(node, "tenant")
    insmod(node, changed)
    outcome = upgrade(node), source(node), limited(tenant)
    rmmod(node, NEW, check=False)
    assert outcome == ("Protocol error", "provisional", True)


@pytest.fixture
def refused(machine: Machine, module: Path, tmp_path: Path) -> Iterator[Machine]:
    """Return the machine with a driver that the engine has refused, and a row that came later."""
    load_engine(machine, allow_unknown_driver="N")
    load_driver(machine, version=UNKNOWN)
    signer = Signer(tmp_path)
    signer.give(ROW)
    folder = Path(paths.CONFIG).parent
    for path in (*signer.rows.iterdir(), *signer.keys.iterdir()):
        machine.write_file(folder / path.relative_to(tmp_path), path.read_bytes())
    yield machine
    clear(machine)
    machine.shell(f"rm -rf {CONFIGURATION} {folder / ROWS} {folder / KEYS}")
    unload_driver(machine)
    unload_engine(machine)


@pytest.mark.enforcement
def test_a_driver_that_was_refused_before_its_row(refused: Machine) -> None:
    """cgpu-config-apply says in one line that the driver is to be loaded anew; by then it has its row."""
    assert source(refused) == ""
    said = apply(refused, "allow_unknown_driver: false\n")
    unload_driver(refused)
    load_driver(refused, version=UNKNOWN)
    await_engine(refused, "driver=row")
    assert limited(slice_of(refused, "tenant"))
    assert f"NVIDIA driver {UNKNOWN}: was refused before it had its row: modprobe -r" in said.text, said.text
