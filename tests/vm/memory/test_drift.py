# SPDX-License-Identifier: Apache-2.0
"""The reconciler in the kernel: drift of a card shows, is logged, and ends grants."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.commands import eventually
from tests.vm.harness.node import read
from tests.vm.harness.sliced_node import SlicedNode
from tests.vm.harness.slices import PROBE, slice_of

MIB = 1 << 20
REAL = 22 * MIB  # what the fake driver's T4 takes for a context
PARAMETERS = {"context_memory": 96 * MIB, "drift_tolerance": 512 * MIB, "drift_reaction": "report"}
SET = 'cd /sys/module/cgpu_km/parameters; echo "$2" >"$1"; cat "$1"'


@pytest.fixture
def settings(node: SlicedNode) -> Iterator[SlicedNode]:
    yield node
    for name, value in PARAMETERS.items():
        node.machine.shell(SET, name, str(value))


@pytest.mark.fake_driver("memory of the card for a context, which the firmware takes")
@pytest.mark.enforcement
def test_lasting_drift(settings: SlicedNode) -> None:
    """Contexts that are not charged are drift, which is logged and, where that is asked for, answered."""
    machine = settings.machine
    for name, value in (("context_memory", "0"), ("drift_tolerance", str(MIB)), ("drift_reaction", "refuse")):
        assert machine.shell(SET, name, value).stdout == f"{value}\n"
    wrong = machine.run(["/bin/busybox", "sh", "-c", SET, "sh", "drift_reaction", "x"], check=False)
    assert wrong.stdout == "refuse\n"
    tenant = slice_of(machine, "tenant")
    process = tenant.start(PROBE, "context=3", "alloc=1M", "count", "hold")
    process.await_output("count", timeout=machine.scaled(60))
    eventually(lambda: read(machine, "0/drift") == f"{3 * REAL}\n", "the drift shows", machine.scaled(20))
    said = f"drift {3 * REAL} bytes: "
    eventually(lambda: said in machine.dmesg(), "a line in the log", machine.scaled(30))
    tenant.run(PROBE, "expect=0x51", "alloc=1M", "expect=0x51", "context").check()
    process.stop(machine.scaled(30))
    eventually(lambda: read(machine, "0/drift") == "0\n", "the drift ends", machine.scaled(20))
