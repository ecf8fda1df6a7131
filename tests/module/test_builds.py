# SPDX-License-Identifier: Apache-2.0
"""The modules build without a warning for every kernel whose headers are here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vm.kernels import Kernel
from tests.vm.node import ENGINES, build_standin, make
from tests.vm.store import ROOT

SOURCES = Path("/usr/src")
HEADERS = sorted(path for path in SOURCES.glob("linux-headers-*-amd64") if (path / "Makefile").exists())


def releases() -> list[str]:
    """Return the kernels that there are headers of."""
    return [path.name.removeprefix("linux-headers-") for path in HEADERS]


@pytest.mark.parametrize("release", releases())
def test_builds_without_warnings(release: str) -> None:
    """Both modules come out; a warning of compiler or linker would have ended the build."""
    installed = Path("/lib/modules") / release / "build"
    sources = installed if installed.exists() else SOURCES / f"linux-headers-{release}"
    built = make(ROOT / "kmod" / "module", ENGINES / release, f"KDIR={sources}")
    names = sorted(path.name.partition("_")[2] for path in built.glob("*.ko"))
    assert len(names) == 2
    assert names[-1] == "km.ko"


def test_stand_in_builds(kernel: Kernel) -> None:
    """So does the driver that the tests in virtual machines load in place of NVIDIA's."""
    built = build_standin(kernel)
    assert {path.name for path in built.glob("*.ko")} == {"nvidia.ko", "nvidia-uvm.ko", "nvidia-modeset.ko"}


def test_default_kernel_is_among_them(kernel: Kernel) -> None:
    """The kernel that the tests boot is one of those."""
    assert kernel.release in releases()
