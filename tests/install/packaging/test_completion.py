# SPDX-License-Identifier: Apache-2.0
"""Completion: each command has a file for bash and for zsh, which the shell can read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cgpu.install.packaging.completion import write
from cgpu.install.packaging.parsers import programs
from tests.integration.commands import must


@pytest.mark.parametrize(("shell", "prefix"), [("bash", ""), ("zsh", "_")])
def test_files(tmp_path: Path, shell: str, prefix: str) -> None:
    """Each command that people call has a file, which completes files and is valid for its shell."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed; run: scripts/bootstrap test")
    write(tmp_path / "bash", tmp_path / "zsh")
    made = {path.name: path for path in (tmp_path / shell).iterdir()}
    assert sorted(made) == sorted(f"{prefix}{name}" for name in programs())
    for path in made.values():
        must([shell, "-n", path])
    assert (
        "_files" in made["_cgpud"].read_text()
        if shell == "zsh"
        else "compgen -f" in made["cgpud"].read_text()
    )
