# SPDX-License-Identifier: Apache-2.0
"""The modules as dkms builds them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.vm.harness.kernels import Kernel
from tests.vm.harness.store import ROOT

MODULE = ROOT / "kmod" / "module"
VERSION = "0.1.0"


def test_dkms_builds_what_the_makefile_puts_there(kernel: Kernel, tmp_path: Path) -> None:
    """The tree that dkms-source makes builds by itself, with nothing of the checkout."""
    if shutil.which("dkms") is None:
        pytest.skip("missing: dkms; run: scripts/bootstrap test")
    make = ["make", "-s", "-C", str(MODULE), "dkms-source", f"DESTDIR={tmp_path}"]
    subprocess.run(make, check=True, timeout=60)
    (tmp_path / "tree").mkdir()
    places = ["--dkmstree", str(tmp_path / "tree"), "--sourcetree", str(tmp_path / "usr" / "src")]
    done = subprocess.run(
        ["dkms", "build", *places, "-m", "opencgpu", "-v", VERSION, "-k", kernel.release],
        cwd="/", capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    built = {path.name for path in (tmp_path / "tree").rglob("*.ko*")}
    assert {name.partition(".")[0] for name in built} == {"cgpu_km", "cgpu_core_0_1_0"}
