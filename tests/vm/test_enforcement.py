# SPDX-License-Identifier: Apache-2.0
"""The tests of the limit are themselves tested: when the module enforces nothing, each of them must fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unenforced import others, run_unenforced
from tests.vm.harness import cross
from tests.vm.harness.counts import count
from tests.vm.harness.node import real_driver

# One of each kind, among those that take little time.
SOME = (
    "memory/test_slice.py::test_slice_is_exact",
    "isolation/test_ways.py::test_cards_of_others_are_not_started",
    "memory/test_ledger.py::test_charges_outlive[many]",
    "sched/test_shares.py::test_channels_do_not_run_before_their_turn",
    "isolation/test_attacks.py::test_attack[docker_in_docker]",
)
# As scripts/test-vm has it.
AT_ONCE = ("--numprocesses=2", "--dist=loadfile", "--no-loadscope-reorder")
# A driver would have to be compiled for the next kernel, for one test.
ALL = ("tests/vm", "--ignore=tests/vm/life/test_next_kernel.py", *AT_ONCE)
# A guest of another processor has no container runtime.
ARM64 = ("tests/vm/memory/test_ledger.py", "tests/vm/isolation/test_attacks.py")
CHOSEN = ARM64 if cross.IS_FOREIGN else count(tuple(f"tests/vm/{name}" for name in SOME), ALL)
# Tests of the limit there are at least: two of the few are about the fake driver.
LEAST = 25 if cross.IS_FOREIGN else count(len(SOME) - 2, 90 if real_driver() is None else 120)
SECONDS = count(1200, 7200)


@pytest.mark.timeout(SECONDS + 60)
def test_tests_of_the_limit_fail_without_enforcement(tmp_path: Path) -> None:
    """With enforcement off no test that is marked `enforcement` passes, and none is skipped."""
    outcomes = run_unenforced(CHOSEN, tmp_path / "report.xml", SECONDS)
    assert len(outcomes) >= LEAST
    # One that fails may leave its machine so that the next cannot begin: that gets a machine of its own.
    for name in [name for name, outcome in outcomes.items() if outcome == "error"]:
        outcomes |= run_unenforced([name], tmp_path / "again.xml", SECONDS)
    assert others(outcomes) == {}
