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
from tests.kubernetes.harness.in_cluster import run_in_cluster

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


def test_of_a_living_owner(owner: subprocess.Popen[bytes]) -> None:
    """The cgroup of a cluster beside this one stays."""
    run_in_cluster("true")
    assert cgroup_of(owner).exists()


def test_of_a_killed_owner(owner: subprocess.Popen[bytes]) -> None:
    """An owner that nobody has waited for yet has ended: some init processes wait only every few seconds."""
    owner.send_signal(signal.SIGKILL)
    eventually(lambda: psutil.Process(owner.pid).status() == psutil.STATUS_ZOMBIE, "the owner has ended")
    run_in_cluster("true")
    assert not cgroup_of(owner).exists()
