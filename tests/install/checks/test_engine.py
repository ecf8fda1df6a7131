# SPDX-License-Identifier: Apache-2.0
"""What is checked of the engine, by files of a machine."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest

from cgpu.install.checks import engine
from tests.install.machine import node_report, write


def test_a_module_at_boot(tmp_path: Path) -> None:
    """It is loaded, and configured by its unit: without the latter it refuses slices after a boot."""
    now = node_report(tmp_path, kind="module")
    assert engine.start_at_boot(now)[0].verdict == "warning"
    write(tmp_path, {"etc/modules-load.d/cgpu.conf": "# ours\ncgpu_km\n"})
    (found,) = engine.start_at_boot(now)
    assert (found.verdict, found.fix) == ("warning", "systemctl enable cgpu-config-apply.service")
    write(tmp_path, {"etc/systemd/system/multi-user.target.wants/cgpu-config-apply.service": ""})
    assert engine.start_at_boot(now)[0].verdict == "ok"


@pytest.mark.parametrize(("soft", "wanted"), [(1024, "warning"), (engine.FILES_WANTED, "ok")])
def test_limits(tmp_path: Path, soft: int, wanted: str) -> None:
    """The limit on open files is that of cgpud's process."""
    with subprocess.Popen(["sleep", "60"]) as process:
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (soft, engine.FILES_WANTED))
        (found,) = engine.limits(node_report(tmp_path, status={"pid": process.pid}))
        process.kill()
    assert (found.verdict, str(soft) in found.text) == (wanted, True)
