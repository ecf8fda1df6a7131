# SPDX-License-Identifier: Apache-2.0
"""The parts of a cluster need no library but those of their image."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cgpu.kubernetes.main import PARTS

# Imports a module where only the standard library, our own packages and the image's are to be found.
IMPORT = """
import importlib, sys
from importlib.metadata import packages_distributions
allowed, module = set(sys.argv[1].split(",")), sys.argv[2]
owners = packages_distributions()
class Image:
    def find_spec(self, name, path=None, target=None):
        owned = {one.lower().replace("_", "-") for one in owners.get(name.partition(".")[0], ())}
        if owned and not owned & allowed:
            raise ModuleNotFoundError(f"{name}: not in the image", name=name)
sys.meta_path.insert(0, Image())
importlib.import_module(module)
"""


@pytest.mark.parametrize("part", PARTS)
def test_libraries_of_the_image(part: str, repository: Path) -> None:
    """A part that is imported with the image's libraries alone finds all that it imports."""
    lock = (repository / "install" / "packaging" / "kubernetes" / "bundled.txt").read_text()
    pinned = [line.partition("==")[0].lower() for line in lock.splitlines() if not line.startswith("#")]
    allowed = ",".join(one.replace("_", "-") for one in (*pinned, "opencgpu"))
    command = [sys.executable, "-c", IMPORT, allowed, PARTS[part][0]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
