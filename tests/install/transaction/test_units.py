# SPDX-License-Identifier: Apache-2.0
"""Units that are stopped for good, where their files are or are not by then."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from cgpu.install.transaction.runner import TIMEOUT_S, Done
from tests.install.support import DAEMON, System, installer

UNIT = "etc/systemd/system/cgpud.service"
ENABLED = "system/enabled/cgpud.service"


def test_a_unit_that_was_removed(root: Path, restored: Path) -> None:
    """It stays removed: what runs of it is stopped, its link for the boot goes, and all else comes back."""
    installer(root).install(DAEMON)
    wants = root / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir()
    (wants / "cgpud.service").symlink_to(f"/{UNIT}")
    (wants / "other.service").symlink_to("/etc/systemd/system/other.service")
    (root / UNIT).unlink()
    (root / ENABLED).unlink()
    system = System(root)
    assert "+ systemctl stop cgpud.service" in list(installer(root, system).show_uninstall())
    assert installer(root, system).uninstall(None)
    assert "systemctl stop cgpud.service" in system.commands
    assert not any("disable" in line for line in system.commands)
    assert [path.name for path in wants.iterdir()] == ["other.service"]
    shutil.rmtree(wants)


@pytest.mark.parametrize(("status", "is_said"), [(0, False), (5, False), (1, True)])
def test_a_removed_unit_that_does_not_stop(root: Path, status: int, *, is_said: bool) -> None:
    """It holds nothing up and is left to the user; one that systemd does not know is not worth a word."""

    class Refusing(System):
        def run(self, words: Sequence[str], timeout: float = TIMEOUT_S) -> Done:
            return Done(status, "busy\n") if words[1] == "stop" else super().run(words, timeout)

    installer(root).install(DAEMON)
    (root / UNIT).unlink()
    one = installer(root, Refusing(root))
    assert one.uninstall(None)
    assert ("left to you: systemctl stop cgpud.service (busy)" in one.notes) == is_said


def test_a_unit_of_the_package(root: Path) -> None:
    """A unit that only a package has is disabled before all else goes."""
    installer(root).install(DAEMON)
    package = root / "usr/lib/systemd/system/cgpud.service"
    package.parent.mkdir(parents=True)
    (root / UNIT).rename(package)
    assert installer(root).uninstall(None)
    assert not (root / ENABLED).exists()
    assert package.exists()
