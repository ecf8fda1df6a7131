# SPDX-License-Identifier: Apache-2.0
"""Warnings of a compiler end builds of the tests, and never those of a user, whose compiler may be newer."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

# Print the flags of the kernel module as its Kbuild file has them.
FLAGS = "include $(src)/Kbuild\nflags: ; @echo $(ccflags-y)\n"


def commands(repository: Path, werror: str) -> list[str]:
    """Return the commands by which make would compile all C parts."""
    make = ["make", "--dry-run", "--always-make", "V=1", "-C", f"{repository}/kmod", "all"]
    done = subprocess.run(
        make, env={**os.environ, "WERROR": werror}, capture_output=True, text=True, check=True, timeout=60
    )
    found = [line for line in done.stdout.splitlines() if "-Wall" in line]
    assert len(found) > 100
    return found


def module_flags(repository: Path, werror: str) -> str:
    """Return the flags by which the kernel module is compiled."""
    make = ["make", "--silent", "-f", "-", f"src={repository}/kmod/module", "CGPU_VERSION=1", "flags"]
    done = subprocess.run(
        make, env={**os.environ, "WERROR": werror}, input=FLAGS, capture_output=True, text=True, check=True
    )
    return done.stdout


@pytest.mark.parametrize(("werror", "ends_it"), [("", False), ("0", False), ("1", True)])
def test_warning(repository: Path, werror: str, ends_it: bool) -> None:
    """With WERROR=1, as the tests have it, a warning ends the build of each C part and of the module."""
    lines = [*commands(repository, werror), module_flags(repository, werror)]
    assert [line for line in lines if "-Wall" not in line.split()] == []
    assert {"-Werror" in line.split() for line in lines} == {ends_it}
    assert os.environ["WERROR"] == "1"
