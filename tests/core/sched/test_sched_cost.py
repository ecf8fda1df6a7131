# SPDX-License-Identifier: Apache-2.0
"""What the scheduler costs, and what it needs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from benchmarks.shares.binding import SCHEDULER
from tests.core.build import HERE, KMOD, WARNINGS, generated, run, tool

CORE = KMOD / "core"
SOURCES = [CORE / "sched" / f"{name}.c" for name in SCHEDULER]
INCLUDE = (f"-I{CORE}", f"-I{CORE / 'include'}")


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Build the scheduler of a GPU by itself, without the rest of the core, and measure it."""
    program = tmp_path_factory.mktemp("cost") / "sched_cost"
    sources = [HERE / "sched" / "sched_cost.c", *SOURCES]
    flags = ["-std=gnu11", "-O2", *WARNINGS, *INCLUDE, f"-I{generated(program.parent / 'gen')}"]
    run([tool("cc"), *flags, *map(str, sources), "-o", str(program)])
    return subprocess.run([program], capture_output=True, text=True, check=True, timeout=120).stdout


def test_a_decision_is_less_than_a_percent_of_a_slice(printed: str) -> None:
    """With 25 busy containers a decision each millisecond, and its reports, take less than 1 % of a core."""
    costs = {name: int(ns) for name, ns in re.findall(r"^(policy .*): (\d+) ns$", printed, re.MULTILINE)}
    assert len(costs) == 8
    assert max(costs.values()) < 10_000, printed


def test_the_decisions_come_from_integers(tmp_path: Path) -> None:
    """No floating point is used, as in the kernel, and no function of a compiler's library."""
    include = (*INCLUDE, f"-I{generated(tmp_path / 'gen')}")
    for source in SOURCES:
        target = tmp_path / f"{source.stem}.o"
        flags = ["-std=gnu11", "-O2", "-ffreestanding", "-mgeneral-regs-only", *include]
        run([tool("cc"), *flags, "-c", str(source), "-o", str(target)])
        symbols = subprocess.run([tool("nm"), "-u", target], capture_output=True, text=True, check=True)
        assert not re.search(r" U __\w+", symbols.stdout)
