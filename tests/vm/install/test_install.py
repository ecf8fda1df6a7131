# SPDX-License-Identifier: Apache-2.0
"""The modules where an administrator puts them, found by modprobe."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vm.harness.machine import Machine
from tests.vm.harness.node import loaded

# A tree of its own: depmod reads every module there is, and the kernel's own are thousands.
TREE = "/tmp/root"
PUT = """
mkdir -p "$2/lib/modules/$(uname -r)/extra"
cp "$1"/*.ko "$2/lib/modules/$(uname -r)/extra/"
/sbin/depmod -b "$2"
"""


@pytest.fixture
def installed(machine: Machine, module: Path) -> Machine:
    """Return the machine with the modules where modprobe looks."""
    machine.shell(PUT, machine.seen(module), TREE)
    return machine


def test_one_modprobe_brings_in_both(installed: Machine) -> None:
    """Loading cgpu_km loads the core of its release too, and the tree is there; both go again."""
    installed.run(["/sbin/modprobe", "-d", TREE, "cgpu_km"])
    assert {"cgpu_km", "cgpu_core_0_1_0"} <= set(loaded(installed))
    assert installed.read_file("/proc/cgpu_km/version") == b"0.1.0\n"
    installed.run(["/sbin/modprobe", "-d", TREE, "-r", "cgpu_core_0_1_0", "cgpu_km"])
    assert not {"cgpu_km", "cgpu_core_0_1_0"} & set(loaded(installed))
    assert installed.run(["/bin/busybox", "ls", "/proc/cgpu_km"], check=False).returncode != 0


@pytest.mark.parametrize("parameter", ["policy=6", "max_inst=26", "max_inst=0", "prio_ratio=19"])
def test_parameters_out_of_range(installed: Machine, parameter: str) -> None:
    """A parameter that no engine takes is refused with a line that says what is accepted."""
    installed.run(["/sbin/modprobe", "-d", TREE, "cgpu_km", parameter], check=False)
    there = installed.run(["/bin/busybox", "test", "-e", "/proc/cgpu_km/version"], check=False)
    assert there.returncode != 0
    assert any("policy is 0 to 5, max_inst 1 to 25" in line for line in installed.dmesg().splitlines())
    installed.run(["/sbin/modprobe", "-d", TREE, "-r", "cgpu_km"])
