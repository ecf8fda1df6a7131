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


def module_flags(repository: Path, werror: str) -> list[str]:
    """Return the flags by which the kernel module is compiled."""
    make = ["make", "--silent", "-f", "-", f"src={repository}/kmod/module", "CGPU_VERSION=1", "flags"]
    done = subprocess.run(
        make, env={**os.environ, "WERROR": werror}, input=FLAGS, capture_output=True, text=True, check=True
    )
    return done.stdout.split()


@pytest.mark.parametrize("werror", ["", "0"])
def test_user(repository: Path, werror: str) -> None:
    """A user's build has warnings, and none of them is an error."""
    assert not [line for line in commands(repository, werror) if "-Werror" in line]
    flags = module_flags(repository, werror)
    assert "-Wall" in flags
    assert "-Werror" not in flags


def test_developer(repository: Path) -> None:
    """With WERROR=1 each of them is one, in every C part and in the kernel module."""
    assert not [line for line in commands(repository, "1") if "-Werror" not in line]
    assert "-Werror" in module_flags(repository, "1")


def test_tests() -> None:
    """The tests' own builds have it so."""
    assert os.environ["WERROR"] == "1"
