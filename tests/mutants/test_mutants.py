# SPDX-License-Identifier: Apache-2.0
"""The patches apply, and are found by their names."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.mutants.__main__ import main
from tests.mutants.mutant import read_mutants


def test_unknown_names(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that no mutant has is refused, also beside one that a mutant has."""
    assert main(["tools/smi-peak-in-bytes", "nosuch"]) == 2
    assert "nosuch" in capsys.readouterr().err


def test_patches_apply(repository: Path) -> None:
    """Every patch applies to the sources as they are, and the files of its tests are there."""
    git = ["git", "-c", f"safe.directory={repository}", "apply", "--check", "--whitespace=nowarn"]
    for mutant in read_mutants():
        subprocess.run([*git, mutant.path], cwd=repository, check=True)
        assert all((repository / name.split("::")[0]).exists() for name in mutant.tests), mutant.name
