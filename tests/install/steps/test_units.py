# SPDX-License-Identifier: Apache-2.0
"""The units that come with the package, as systemd itself judges them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from cgpu.install.places import KMOD
from tests.integration.commands import call

UNITS = sorted(path.name for path in (KMOD / "units").iterdir())
# Settings since systemd 254: an older systemd says that it ignores them.
NEWER = ("'RestartSteps'", "'RestartMaxDelaySec'", "'FileDescriptorStorePreserve'")
# The highest exposure that `systemd-analyze security` may report, in tenths. Other units are of engines.
EXPOSURE = {"cgpu-exporter.service": 28, "cgpu-smi-publish.service": 25}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the units, which start our commands where they are."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not there; install: apt-get install systemd")
    for name in UNITS:
        text = (KMOD / "units" / name).read_text()
        (tmp_path / name).write_text(text.replace("/usr/bin/cgpu", f"{Path(sys.executable).parent}/cgpu"))
    return tmp_path


def test_valid(folder: Path) -> None:
    """systemd knows every key and value, and finds every command."""
    done = call(["systemd-analyze", "verify", "--man=no", *(folder / name for name in UNITS)])
    lines = [line for line in done.stderr.splitlines() if not any(key in line for key in NEWER)]
    assert (done.returncode, lines) == (0, [])


@pytest.mark.parametrize("name", EXPOSURE)
def test_few_rights(folder: Path, name: str) -> None:
    """A unit that only reads the tree and talks to others has few rights beside that."""
    words = ["security", "--offline=true", f"--threshold={EXPOSURE[name]}", str(folder / name)]
    done = call(["systemd-analyze", *words])
    assert done.returncode == 0, done.stdout
