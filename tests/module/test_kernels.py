# SPDX-License-Identifier: Apache-2.0
"""Which kernels the tests boot, by the names that Debian's releases give them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.vm.harness.kernels import debian_kernels


def install(root: Path, release: str, *, headers: bool = True) -> None:
    (root / "boot").mkdir(exist_ok=True)
    (root / "boot" / f"vmlinuz-{release}").touch()
    modules = root / "lib/modules" / release
    (modules / "build").mkdir(parents=True)
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
