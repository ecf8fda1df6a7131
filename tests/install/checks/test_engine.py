# SPDX-License-Identifier: Apache-2.0
"""What is checked of the engine, by files of a machine."""

from __future__ import annotations

import os
import resource
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


LIMITS = """Limit                     Soft Limit           Hard Limit           Units
Max open files            {}                 1048576              files
Max locked memory         8388608              8388608              bytes
"""


@pytest.mark.parametrize(
    ("soft", "verdict", "text"),
    [
        ("1024", "warning", "cgpud may have 1024 files open"),
        (str(engine.FILES_WANTED), "ok", f"cgpud may have {engine.FILES_WANTED} files open"),
        ("unlimited", "ok", "cgpud may have any number of files open"),
    ],
)
def test_limits(tmp_path: Path, soft: str, verdict: str, text: str) -> None:
    """The limit on open files is that of cgpud's process, on the machine below the root."""
    write(tmp_path, {"proc/42/limits": LIMITS.format(soft)})
    (found,) = engine.limits(node_report(tmp_path, status={"pid": 42}))
    assert (found.verdict, found.text.split(":")[0]) == (verdict, text)


def test_limits_of_the_system() -> None:
    """The kernel's own table is understood."""
    now = node_report(Path("/"), status={"pid": os.getpid()})
    (found,) = engine.limits(now)
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    named = "any number of" if soft == resource.RLIM_INFINITY else str(soft)
    assert found.text.startswith(f"cgpud may have {named} files open")


def test_limits_that_cannot_be_read(tmp_path: Path) -> None:
    """A process that runs and shows no limits is not said to have ended."""
    write(tmp_path, {"proc/42/comm": "cgpud"})
    (found,) = engine.limits(node_report(tmp_path, status={"pid": 42}))
    assert (found.verdict, found.text) == ("skipped", "/proc/42/limits cannot be read")
