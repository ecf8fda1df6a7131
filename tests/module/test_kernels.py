# SPDX-License-Identifier: Apache-2.0
"""Which kernels the tests boot, by the names that Debian's releases give them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vm.harness import kernels, mmdebstrap
from tests.vm.harness.kernels import NoKernelError, choose_kernel, debian_kernels


def install(root: Path, release: str, *, headers: bool = True, image: str = "boot/vmlinuz-{}") -> None:
    modules = root / "lib/modules" / release
    (modules / "build").mkdir(parents=True)
    (root / "boot").mkdir(exist_ok=True)
    (root / image.format(release)).touch()
    (modules / "modules.dep").touch()
    if headers:
        (modules / "build/Makefile").touch()


@pytest.mark.parametrize(
    ("releases", "expected"),
    [
        (
            ["6.1.0-9-amd64", "6.1.0-56-amd64", "6.12.117+deb12-amd64"],
            [["6.1.0-9-amd64", "6.1.0-56-amd64"], ["6.12.117+deb12-amd64"]],
        ),
        (["6.12.118+deb13-amd64", "6.12.9+deb13-amd64"], [["6.12.9+deb13-amd64", "6.12.118+deb13-amd64"]]),
        (["6.12.9+deb13-amd64", "6.12.9+deb13.1-amd64"], [["6.12.9+deb13-amd64", "6.12.9+deb13.1-amd64"]]),
        (["7.2.12+deb14-amd64"], [["7.2.12+deb14-amd64"]]),
        (["7.2.12-amd64"], [["7.2.12-amd64"]]),
        (["6.1.0-56-cloud-amd64", "6.1.0-56-amd64.old", "6.1.0-rc1-amd64"], []),
    ],
)
def test_series(tmp_path: Path, releases: list[str], expected: list[list[str]]) -> None:
    """Kernels of one series are in the order of their versions, series from the oldest on."""
    for release in releases:
        install(tmp_path, release)
    assert [[kernel.release for kernel in series] for series in debian_kernels(tmp_path)] == expected


def test_without_headers(tmp_path: Path) -> None:
    """A kernel without headers does not count."""
    install(tmp_path, "6.1.0-56-amd64", headers=False)
    assert debian_kernels(tmp_path) == []


def test_image_beside_the_modules(tmp_path: Path) -> None:
    """An image in the folder of the modules is found, as Debian's packages of Linux 7 have it."""
    install(tmp_path, "6.12.118+deb13-amd64")
    install(tmp_path, "7.2.12+deb14-amd64", image="lib/modules/{}/vmlinuz")
    assert [kernel.image.relative_to(tmp_path) for (kernel,) in debian_kernels(tmp_path)] == [
        Path("boot/vmlinuz-6.12.118+deb13-amd64"),
        Path("lib/modules/7.2.12+deb14-amd64/vmlinuz"),
    ]


def test_kernel_of_a_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of a release chooses its kernel and its way to build modules. That is no debug kernel."""
    monkeypatch.setenv(kernels.VARIABLE, "testing")
    monkeypatch.setattr(kernels, "STORE", tmp_path)
    with pytest.raises(NoKernelError, match="run: scripts/test-kernels testing"):
        choose_kernel()
    folder = tmp_path / "debian-testing"
    (folder / "build").mkdir(parents=True)
    (folder / "build/Makefile").touch()
    (folder / "root").mkdir()
    install(folder / "root", "7.2.12+deb14-amd64")
    kernel = choose_kernel()
    assert (kernel.release, kernel.build, kernel.debug) == ("7.2.12+deb14-amd64", folder / "build", False)
    assert not kernels.is_debug_kernel_given()
    monkeypatch.setenv(kernels.VARIABLE, "kmod/build/debug-kernel")
    assert kernels.is_debug_kernel_given()


TARGETS = """\
http://deb.debian.org/debian/ bookworm main Debian
http://deb.debian.org/debian/ bookworm-updates main Debian
http://deb.debian.org/debian/ bookworm contrib Debian
http://deb.debian.org/debian-security/ bookworm-security main Debian
https://packages.example.org/apt bookworm main Example
"""


def test_sources_of_a_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A release comes from the mirrors of this machine's own, and testing without updates."""
    (tmp_path / "apt-get").write_text(f"#!/bin/sh\ncat <<'END'\n{TARGETS}END\n")
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(mmdebstrap, "own_suite", lambda: "bookworm")
    assert mmdebstrap.sources("trixie") == (
        "deb http://deb.debian.org/debian-security/ trixie-security main\n"
        "deb http://deb.debian.org/debian/ trixie main\n"
        "deb http://deb.debian.org/debian/ trixie-updates main\n"
    )
    assert mmdebstrap.sources("testing") == "deb http://deb.debian.org/debian/ testing main\n"
