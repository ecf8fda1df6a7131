# SPDX-License-Identifier: Apache-2.0
"""The modules build without a warning for every kernel whose headers are here, and by dkms."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.vm.harness.kernels import Kernel
from tests.vm.harness.node import ENGINES, LINES, make
from tests.vm.harness.store import ROOT

SOURCES = Path("/usr/src")
HEADERS = sorted(path for path in SOURCES.glob("linux-headers-*-amd64") if (path / "Makefile").exists())


def releases() -> list[str]:
    """Return the kernels that there are headers of."""
    return [path.name.removeprefix("linux-headers-") for path in HEADERS]


def built(release: str) -> Path:
    """Build both modules for a kernel; return the folder with them."""
    installed = Path("/lib/modules") / release / "build"
    sources = installed if installed.exists() else SOURCES / f"linux-headers-{release}"
    return make(ROOT / "kmod" / "module", ENGINES / release, f"KDIR={sources}", LINES)


@pytest.mark.parametrize("release", releases())
def test_builds_without_warnings(release: str) -> None:
    """Both modules come out; a warning of compiler or linker would have ended the build."""
    names = sorted(path.name.partition("_")[2] for path in built(release).glob("*.ko"))
    assert len(names) == 2
    assert names[-1] == "km.ko"


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
