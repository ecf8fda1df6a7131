# SPDX-License-Identifier: Apache-2.0
"""The parts of the checks that need no GPU: what is said without one, and what is read out of results."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from pathlib import Path

from benchmarks.gpu import Turn, report
from tests.gpu.node import environment


def run(repository: Path, *command: str) -> subprocess.CompletedProcess[str]:
    env = environment() | {"CGPU_GPU_DEV": "/nowhere"}
    return subprocess.run(
        command, cwd=repository, env=env, capture_output=True, text=True, timeout=60, check=False
    )


def test_script_says_that_it_skips(repository: Path, tmp_path: Path) -> None:
    """Without a GPU the script does nothing but say so in one line, which names what is missing."""
    done = run(repository, "scripts/test-gpu", "--all", str(tmp_path / "out"))
    assert done.returncode == 0
    assert done.stdout.startswith("test-gpu: skipped: /nowhere/nvidiactl is not there")
    assert (done.stdout.count("\n"), done.stderr) == (1, "")
    assert not (tmp_path / "out").exists()


def test_checks_skip(repository: Path) -> None:
    """Without a GPU no check passes, and none is collected by name alone."""
    options = ("-o", "python_files=check_*.py", "-o", "python_functions=check_*", "-q", "tests/gpu")
    done = run(repository, sys.executable, "-m", "pytest", *options)
    last = done.stdout.splitlines()[-1]
    assert " skipped in " in last
    assert "passed" not in last


def test_report() -> None:
    """The benchmark's result has versions, medians, ratios, and says which rate misses the goal."""
    about = {"device": "H100", "cuda": "13.0", "torch": "2.11"}
    turns = [
        Turn(
            {**about, "copy_gb_s": 1000.0, "product_tflop_s": 500.0},
            {"copy_gb_s": 995.0 + turn, "product_tflop_s": 480.0},
        )
        for turn in range(5)
    ]
    text = report(turns, "580.159.04", dt.date(2026, 1, 2))
    assert "H100, driver 580.159.04 (not in the table" in text
    assert "| 1000.0 | 997.0 | 0.9970 | 0.9950 to 0.9990 | yes |" in text
    assert "| 500.0 | 480.0 | 0.9600 | 0.9600 to 0.9600 | NO |" in text
