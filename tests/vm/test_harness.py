# SPDX-License-Identifier: Apache-2.0
"""The harness finds faults of the kernel: without that every test of the module would pass beside them.

It also takes a driver that was built elsewhere.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.nvidia.archive import NotInArchiveError
from tests.vm.harness.kernels import Kernel
from tests.vm.harness.machine import Machine
from tests.vm.nvidia import driver


def complain(machine: Machine, text: str) -> None:
    machine.write_file("/dev/kmsg", text)


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: CPU: 0 PID: 1 at made/up.c:1 here+0x0/0x1",
        "BUG: KASAN: use-after-free in here+0x0/0x1",
        "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
        "WARNING: possible circular locking dependency detected",
        "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
    ],
)
def test_fault_is_found(machine: Machine, line: str) -> None:
    """A fault in the kernel log is a problem of the machine, once, with the line that names it."""
    assert machine.problems() == []
    complain(machine, line)
    assert line in machine.problems()[0]
    assert machine.problems() == []


def test_driver_that_was_built_elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The driver is taken for the kernel it was built for; else a line says what is expected."""
    monkeypatch.setattr(driver, "STORE", tmp_path)
    kernel = Kernel("6.1.0-1-amd64", Path(), Path(), Path())
    folder = tmp_path / "nvidia-580.142-6.1.0-1-amd64"
    for other in ("nvidia-580.142-6.1.0-2-amd64", "nvidia-tools-580.142", "nvidia-535-x-6.1.0-1-amd64"):
        (tmp_path / other).mkdir()
    with pytest.raises(NotInArchiveError) as refused:
        driver.build_driver(kernel, "580.142")
    assert f"expected nvidia.ko and nvidia-uvm.ko in {folder}, or one of 535.261.03" in str(refused.value)
    folder.mkdir()
    assert driver.build_driver(kernel, "580.142") == folder
    assert driver.built_versions(kernel) == ["580.142"]
