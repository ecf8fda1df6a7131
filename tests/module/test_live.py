# SPDX-License-Identifier: Apache-2.0
"""What of a mapping of managed memory is live: random histories on the host, beside a model of pages."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.core.build import SANITIZE, WARNINGS, run, tool
from tests.vm.harness.counts import count

HERE = Path(__file__).resolve().parent
MODULE = HERE.parent.parent / "kmod" / "module"
STEPS = 3000
SEEDS = range(count(12, 400))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the model with the module's file, under AddressSanitizer and UBSan."""
    output = tmp_path_factory.mktemp("live") / "live_parts"
    places = [f"-I{HERE / 'shim'}", f"-I{MODULE}", f"-I{HERE.parent / 'core' / 'bench'}"]
    sources = [str(HERE / "live_parts.c"), str(MODULE / "probes/live.c")]
    flags = ["-std=gnu11", "-g", "-O1", *WARNINGS, *SANITIZE]
    run([tool("clang"), *flags, *places, *sources, "-o", str(output)])
    return output


def check(*command: str | Path) -> None:
    """Fail with what the program says when it ends with an error."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_live_is_known(program: Path, seed: int) -> None:
    """A piece is credited once, to its own mapping, and nothing that lies in a hole of it ever is."""
    check(program, str(seed), str(STEPS))


@pytest.mark.parametrize("seed", SEEDS)
def test_without_memory_it_stays_charged(program: Path, seed: int) -> None:
    """Where a second part finds no memory a mapping stays charged for that until its address space ends."""
    check(program, str(seed), str(STEPS), "none")


def test_parts_have_a_bound(program: Path) -> None:
    """A mapping cut into more parts than are kept stays charged for what lies behind the last one."""
    check(program, "1", "0", "bound")
