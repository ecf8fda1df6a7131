# SPDX-License-Identifier: Apache-2.0
"""Distributions by their os-release, and the commands that messages name on each."""

from __future__ import annotations

from pathlib import Path

import pytest

from cgpu import distribution
from cgpu.distribution import DEBIAN, RPM, family, install_command

# The lines ID and ID_LIKE of each system's /etc/os-release.
RHEL = 'NAME="Red Hat Enterprise Linux"\nVERSION="9.4 (Plow)"\nID="rhel"\nID_LIKE="fedora"\n'
ROCKY = 'NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n'
FEDORA = "NAME='Fedora Linux'\nID=fedora\nVERSION_ID=42\n"
UBUNTU = "ID=ubuntu\nID_LIKE=debian\n"
DEBIAN_13 = 'PRETTY_NAME="Debian GNU/Linux 13 (trixie)"\nID=debian\n'
ARCH = "ID=arch\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [(RHEL, RPM), (ROCKY, RPM), (FEDORA, RPM), (UBUNTU, DEBIAN), (DEBIAN_13, DEBIAN), (ARCH, None)],
)
def test_family(text: str, expected: str | None) -> None:
    """ID counts, and ID_LIKE where the distribution itself is not known."""
    assert family(text) == expected


@pytest.mark.parametrize(
    "text",
    [None, "", "ID", 'ID="debian', "ID=debian; rm -rf /", "ID=$(id)", "VARIANT_ID=debian", " ID=debian",
     "\0"],
)  # fmt: skip
def test_nothing_is_guessed(text: str | None) -> None:
    """A malformed text gives no family."""
    assert family(text) is None


@pytest.mark.parametrize(
    ("package", "debian", "rpm"),
    [
        ("fuse3", "apt-get install fuse3", "dnf install fuse3"),
        ("runc", "apt-get install runc", "dnf install crun"),
        ("linux-headers-6.1.0", "apt-get install linux-headers-6.1.0", "dnf install kernel-devel-6.1.0"),
    ],
)
def test_install_command(package: str, debian: str, rpm: str) -> None:
    """Each family has its command and its names; elsewhere only the package is named."""
    assert install_command(package, DEBIAN) == debian
    assert install_command(package, RPM) == rpm
    assert install_command(package, None) == f"install the package {package}"


def test_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first of both files that is there counts, a link too; one that is too large says nothing."""
    first, second = tmp_path / "etc-os-release", tmp_path / "usr-os-release"
    monkeypatch.setattr(distribution, "OS_RELEASE", (str(first), str(second)))
    assert distribution.here() is None
    second.write_text(FEDORA)
    assert distribution.here() == RPM
    (tmp_path / "text").write_text(UBUNTU)
    first.symlink_to("text")
    assert distribution.here() == DEBIAN
    (tmp_path / "text").write_text(UBUNTU + "#" * distribution.OS_RELEASE_MAX)
    assert distribution.here() is None
