# SPDX-License-Identifier: Apache-2.0
"""Versions of the driver that are sliced, and the end of others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from cgpu.kmod.abi.generate import DATA
from cgpu.kmod.abi.rows.row import line_of
from tests.module.symbols import required
from tests.vm.harness.machine import Machine
from tests.vm.harness.node import (
    DRIVER_VERSION,
    build_fake_driver,
    insmod,
    load_driver,
    load_engine,
    pass_check,
    rmmod,
    unload_driver,
    unload_engine,
)
from tests.vm.harness.process import Finished
from tests.vm.harness.slices import GIB, Slice, clear, create, slice_of

pytestmark = pytest.mark.fake_driver("other versions of the driver")

UNKNOWN = "999.99"
NOT_CHECKED = f"NVIDIA driver {UNKNOWN} is not in the table, and its check has not passed"
ROW = "/sys/module/cgpu_km/parameters/driver_row"
# Each lacks a function without which a limit has a hole; tests/module/test_symbols.py has the list complete.
LACKING = required()
BESIDE = ["expect=0x51", "alloc=2G", "alloc=1G", "info"]


@pytest.fixture
def bare(machine: Machine, module: Path) -> Iterator[Machine]:
    """Return the machine with the engine, and no driver before and after."""
    load_engine(machine)
    yield machine
    unload_engine(machine)


def try_driver(machine: Machine, version: str = DRIVER_VERSION, without: str = "") -> Finished:
    """Load only the driver's first module; it may be refused."""
    return insmod(machine, build_fake_driver(machine.kernel, version, without) / "nvidia.ko", check=False)


def gpus(machine: Machine) -> list[str]:
    return [name for name in machine.shell("ls /proc/cgpu_km").stdout.split() if name.isdigit()]


def refusal(machine: Machine) -> str:
    """Return why the driver lets no container begin."""
    line = f"exec 3<>/proc/cgpu_km/inst_ctl; echo create id=x pid=1 gpu=0:{GIB} >&3 || cat <&3"
    return machine.shell(line).stdout


def await_engine(machine: Machine, word: str) -> None:
    test = f"grep -q {word} /proc/cgpu_km/engine"
    machine.shell(f"for _ in $(seq 99); do {test} && exit; sleep 0.1; done; false")


def give_row(machine: Machine, line: str, *, check: bool = True) -> Finished:
    """Write a row at once, as cgpu-config-apply does."""
    machine.write_file("/tmp/row", f"{line}\n")
    return machine.shell(f"dd if=/tmp/row of={ROW} bs=4096", check=check)


def limited(tenant: Slice) -> bool:
    outcome = tenant.probe(*BESIDE)
    assert outcome.returncode == 0, outcome.text
    return f"total={GIB} " in outcome.stdout


@pytest.mark.enforcement
def test_container_outlives_the_driver_in_each_version(engine: Machine) -> None:
    """A container keeps its limit when the driver comes back as the oldest, newest or a checked version."""
    tenant = slice_of(engine, "tenant")
    pass_check(engine, "615.71.09")
    for version in ("515.43.04", "595.45.04", "615.71.09", DRIVER_VERSION):
        unload_driver(engine)
        load_driver(engine, version=version)
        assert limited(tenant), version


def test_unknown_version_is_refused_by_name(bare: Machine) -> None:
    """By allow_unknown_driver=N: its GPUs are not in the tree, and the log says which version it is."""
    unload_engine(bare)
    load_engine(bare, allow_unknown_driver="N")
    load_driver(bare, version=UNKNOWN)
    refused, done = create(bare, "tenant")
    assert (gpus(bare), done.returncode != 0) == ([], True)
    refused.end()
    unload_driver(bare)
    assert f"driver {UNKNOWN}: unknown version" in bare.dmesg()


@pytest.mark.enforcement
def test_no_container_begins_on_a_driver_without_limits(engine: Machine) -> None:
    """An unknown or incomplete driver takes no containers, also with GPUs that are known from before."""
    for module, version, without in [("nvidia", UNKNOWN, ""), *((one[0], "", one[1]) for one in LACKING)]:
        unload_driver(engine)
        load_driver(engine, version=version or DRIVER_VERSION, without=without)
        refused, done = create(engine, "tenant")
        refused.end()
        assert (done.returncode != 0, "Protocol error" in done.text) == (True, True), (module, done.text)
        if without:
            said = [line for line in engine.dmesg().splitlines() if f"{without} cannot be probed" in line]
            assert len(said) == 1, (without, said)
    unload_driver(engine)
    load_driver(engine)
    assert limited(slice_of(engine, "tenant"))


@pytest.mark.enforcement
def test_no_driver_without_limits_comes_while_containers_run(engine: Machine) -> None:
    """While a container lives an unknown or incomplete driver cannot be loaded; the right one can."""
    tenant = slice_of(engine, "tenant")
    unload_driver(engine)
    unknown = try_driver(engine, UNKNOWN)
    without_ioctl = try_driver(engine, without="rm_ioctl")
    assert (unknown.returncode != 0, without_ioctl.returncode != 0) == (True, True)
    # Not needed: its exports are refused elsewhere, or not there.
    assert try_driver(engine, without="nv_dma_buf_export").returncode == 0
    uvm = build_fake_driver(engine.kernel, DRIVER_VERSION, "uvm_va_range_create_mmap") / "nvidia-uvm.ko"
    assert insmod(engine, uvm, check=False).returncode != 0
    rmmod(engine, "nvidia")
    load_driver(engine)
    assert limited(tenant)
    assert "not let in, since sliced containers are running" in engine.dmesg()


@pytest.mark.enforcement
def test_provisional_version(bare: Machine) -> None:
    """A version that is not in the table serves containers once its check has passed, and limits hold."""
    load_driver(bare, version=UNKNOWN)
    assert refusal(bare).startswith(NOT_CHECKED)
    pass_check(bare, UNKNOWN)
    assert limited(slice_of(bare, "tenant"))
    give_row(bare, "")  # as before: no change
    assert "driver=provisional" in bare.shell("cat /proc/cgpu_km/engine").stdout
    clear(bare)
    pass_check(bare, "999.98")
    assert refusal(bare).startswith(NOT_CHECKED)
    unload_driver(bare)


@pytest.mark.enforcement
def test_version_by_a_row(bare: Machine) -> None:
    """A version of a signed file serves containers without a check; while one is there no row changes."""
    load_driver(bare, version=UNKNOWN)
    row = json.dumps({"version": UNKNOWN, "base": "615.71.09"}).encode()
    _, line = line_of(row, json.loads(DATA.read_text()))
    give_row(bare, line)
    await_engine(bare, "driver=row")
    assert limited(slice_of(bare, "tenant"))
    assert give_row(bare, "", check=False).returncode != 0
    give_row(bare, line)
    assert "driver=row" in bare.shell("cat /proc/cgpu_km/engine").stdout
    clear(bare)
    for wrong in (line + " 0", line.replace(UNKNOWN, "999.98"), "no row"):
        give_row(bare, wrong)
        await_engine(bare, "driver=provisional")
        assert refusal(bare).startswith(NOT_CHECKED)
        give_row(bare, line)
        await_engine(bare, "driver=row")
    unload_driver(bare)


def test_core_that_does_not_know_the_driver_that_is_there(machine: Machine, module: Path) -> None:
    """A core that comes after an unknown driver knows the GPUs of before, and slices none."""
    load_driver(machine)
    load_engine(machine)
    cores = [
        line for line in machine.shell("cut -d' ' -f1 /proc/modules").stdout.split() if "cgpu_core" in line
    ]
    unload_driver(machine)
    rmmod(machine, *cores)
    load_driver(machine, version=UNKNOWN)
    insmod(machine, next(module.glob("cgpu_core_*.ko")))
    machine.shell("[ ! -e /proc/cgpu_km/0 ] || cat /proc/cgpu_km/0/memfree", check=False)
    refused, done = create(machine, "tenant")
    refused.end()
    assert done.returncode != 0
    unload_engine(machine)
    unload_driver(machine)
