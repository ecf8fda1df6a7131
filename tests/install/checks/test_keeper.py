# SPDX-License-Identifier: Apache-2.0
"""Who keeps containers' descriptors, where systemd does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from cgpu import paths
from cgpu.install.checks import engine
from tests.install.machine import node_report, sound, write


@pytest.mark.parametrize(
    ("lock", "process", "expected"),
    [
        ("7 100\n", "S", "ok"),
        ("7\n", "S", "ok"),
        ("7 99\n", "S", "warning"),
        ("7 100\n", "Z", "warning"),
        ("8 100\n", "S", "warning"),
        ("", "S", "ok"),
        ("no lock\n", "S", "ok"),
        ("9" * 5000, "S", "ok"),
    ],
)
def test_keeper(tmp_path: Path, lock: str, process: str, expected: str) -> None:
    """A keeper's socket counts where the keeper that has written the lock lives: it may be another's."""
    root = sound(tmp_path / "root")
    heard = f"ffff8: 00000002 00000000 00000000 0002 01 3107 {paths.KEEPER_SOCKET}\n"
    status = f"7 (cgpud) {process} " + "0 " * 18 + "100 0\n"
    write(root, {"proc/net/unix": "Num\n" + heard, "proc/7/stat": status, paths.LOCK.lstrip("/"): lock})
    (found,) = engine.descriptor_store(node_report(root))
    assert found.verdict == expected
