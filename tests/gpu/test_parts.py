# SPDX-License-Identifier: Apache-2.0
"""The checks skip where there is no GPU, and the script says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
