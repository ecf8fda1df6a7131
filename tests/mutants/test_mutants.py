# SPDX-License-Identifier: Apache-2.0
"""The patches apply, and a mutant counts as caught only where a test fails because of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.lanes.turn import ask_git
from tests.mutants import trial
from tests.mutants.__main__ import main
from tests.mutants.mutant import Mutant, read_mutants

# The word in the file `fault` says what goes wrong.
TEST = """
import time, pytest
FAULT = open("fault").read()
def setup_function(): assert "set-up" not in FAULT
def teardown_function(): assert "teardown" not in FAULT
@pytest.mark.parametrize("word", ["a - b"])
def test_it(word):
    assert "test" not in FAULT
    time.sleep(600 if "hang" in FAULT else 0)
"""
FILES = {
    "kmod/Makefile": "all:\n",
    "tests/__init__.py": "",
    "tests/vm/harness/kernels.py": "def choose_kernel(): pass\n",
    "tests/vm/harness/node.py": "def build_engine(kernel): assert 'module' not in open('fault').read()\n",
    "tests/vm/test_it.py": TEST,
}
DIFF = "Tests:\n\ndiff --git a/fault b/fault\n--- a/fault\n+++ b/fault\n@@ -1 +1 @@\n-{}\n+{}\n"


@pytest.mark.root
@pytest.mark.parametrize(
    ("before", "after", "state"),
    [
        ("none", "test", "caught"),
        ("none", "teardown", "caught"),
        ("none", "set-up", "not run"),
        ("none", "module", "not built"),
        ("none", "hang", "timed out"),
        ("test", "test, too", "fails without it, too"),
    ],
)
def test_state(before: str, after: str, state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test or its teardown must fail with the fault and pass without it; nothing else counts as caught."""
    monkeypatch.setattr(trial, "SECONDS", 4.0 if after == "hang" else 600.0)
    for name, text in (FILES | {"fault": f"{before}\n", "../patch": DIFF.format(before, after)}).items():
        (tmp_path / "checkout" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "checkout" / name).write_text(text)
    (tmp_path / "checkout/.venv").symlink_to(sys.prefix)
    mutant = Mutant("a/b", ("tests/vm/test_it.py",), tmp_path / "patch")
    assert trial.try_mutant(mutant, tmp_path / "checkout", lane_test=False)[0] == state


def test_unknown_names(capsys: pytest.CaptureFixture[str]) -> None:
    """A name that no mutant has is refused, also beside one that a mutant has."""
    assert main(["tools/smi-peak-in-bytes", "nosuch"]) == 2
    assert "nosuch" in capsys.readouterr().err


def test_patches_apply(repository: Path) -> None:
    """Every patch applies to the sources as they are, and the files of its tests are there."""
    for mutant in read_mutants():
        ask_git("apply", "--check", "--whitespace=nowarn", str(mutant.path))
        assert all((repository / name.split("::")[0]).exists() for name in mutant.tests), mutant.name
