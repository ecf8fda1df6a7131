# SPDX-License-Identifier: Apache-2.0
"""What scripts/kubernetes/in-cluster does with cgroups of its runs that were killed."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.integration.commands import eventually
from tests.integration.images import ROOT

pytestmark = pytest.mark.root


def hierarchy() -> Path:
    """Return where a hierarchy of cgroups is mounted."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    return next(Path(words[1]) for words in mounts if words[2] in {"cgroup", "cgroup2"})


def cgroup_of(process: subprocess.Popen[bytes]) -> Path:
    """Return the owner's cgroup."""
    return hierarchy() / f"opencgpu-kubernetes-{process.pid}"


@pytest.fixture
def owner() -> Iterator[subprocess.Popen[bytes]]:
    """A process that stands for in-cluster, and has a cgroup as that has."""
    with subprocess.Popen(["sleep", "60"]) as process:
        cgroup_of(process).mkdir()
        yield process
        process.kill()
    if cgroup_of(process).exists():
        cgroup_of(process).rmdir()


def run(folder: Path) -> None:
    """Run a command where a cluster could live."""
    words = ["scripts/kubernetes/in-cluster", str(folder), "1.36", str(folder), "true"]
    subprocess.run(words, cwd=ROOT, check=True, timeout=60)


def test_of_a_living_owner(owner: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """The cgroup of a cluster beside this one stays."""
    run(tmp_path)
    assert cgroup_of(owner).exists()


def test_of_a_killed_owner(owner: subprocess.Popen[bytes], tmp_path: Path) -> None:
    """An owner that nobody has waited for yet has ended: some init processes wait only every few seconds."""
    owner.send_signal(signal.SIGKILL)
    eventually(lambda: psutil.Process(owner.pid).status() == psutil.STATUS_ZOMBIE, "the owner has ended")
    run(tmp_path)
    assert not cgroup_of(owner).exists()
