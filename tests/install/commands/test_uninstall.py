# SPDX-License-Identifier: Apache-2.0
"""What `cgpu uninstall` says at its end."""

from __future__ import annotations

import pytest

from cgpu.install.commands.uninstall import program_files


@pytest.mark.parametrize(
    ("bundle", "said"),
    [
        (None, "package, too: pip, apt or dnf"),
        ("/usr/lib/opencgpu", "package, too: pip, apt or dnf"),
        ("/var/opencgpu/0.1.0", "bundle, too: rm -r /var/opencgpu"),
    ],
)
def test_program_files(monkeypatch: pytest.MonkeyPatch, bundle: str | None, said: str) -> None:
    """An unpacked bundle goes with its folder, a package by its tool."""
    monkeypatch.setattr("cgpu.paths.BUNDLE", bundle)
    assert program_files() == said
