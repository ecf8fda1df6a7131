# SPDX-License-Identifier: Apache-2.0
"""What calls cost with the module. Only that it is measured: how long things take is the machine's affair."""

from __future__ import annotations

from pathlib import Path

from benchmarks.module_calls import DRIVER_CALLS, PLACES, measure
from tests.vm.harness.counts import count
from tests.vm.harness.machine import Machine

ROUNDS = count(2, 9)
CALLS = count(300, 2000)


def test_cost_is_measured(machine: Machine, tmp_path: Path) -> None:
    """Each call is measured without the module, outside and inside of an instance, and told as a ratio."""
    costs = measure(machine, ROUNDS, CALLS)
    result = tmp_path / "module-calls"
    result.write_text("\n".join(costs.lines()) + "\n")
    print(result.read_text())
    assert {
        call: {place: len(took) for place, took in places.items()} for call, places in costs.times.items()
    } == {call: dict.fromkeys(PLACES, ROUNDS) for call in (*DRIVER_CALLS, "open-null", "getppid")}
    lines = result.read_text().splitlines()
    assert [line.split()[0] for line in lines[1:]] == [*DRIVER_CALLS, "open-null", "getppid"]
    assert all(float(line.split()[column]) > 0 for line in lines[1:] for column in (3, 5))
