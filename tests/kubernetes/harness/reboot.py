# SPDX-License-Identifier: Apache-2.0
"""A node that loses its power: every process of it ends at once, and /run is empty when it starts again."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

from tests.integration.commands import Server, call, eventually
from tests.integration.engine import processes
from tests.kubernetes.harness.cluster import Cluster

RUN = Path("/run")
KEPT = ("kernel-settings",)  # scripts/test-kubernetes lays it over settings of the machine
NODE = ("kubelet", "containerd")
SHIM = "containerd-shim"


def reboot(cluster: Cluster, agent: Server) -> None:
    """Have the node's processes end, lose /run, and start as a machine starts them: first the engine."""
    for component in (agent, *(cluster.components[name] for name in NODE)):
        component.kill()
    eventually(lambda: not kill(list(of_node(cluster))), "all processes of the node have ended", 30)
    empty_run()
    cluster.engine.start()
    for name in reversed(NODE):
        cluster.components[name].start()
    agent.start()


def of_node(cluster: Cluster) -> Iterator[int]:
    """Yield the processes of containers, of their shims, and of the engine with its cards."""
    # A filter of the tests that run may have the same words.
    yield from {int(line.split()[0]) for line in processes()} - {1, os.getpid()}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_text(errors="replace").split("\0")
                if cluster.settings.cgroup in (folder / "cgroup").read_text() or SHIM in words[0]:
                    yield int(folder.name)


def kill(pids: list[int]) -> list[int]:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return pids


def empty_run() -> None:
    places = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for place in reversed(places):
        if place.startswith(f"{RUN}/") and not place.startswith(tuple(f"{RUN}/{name}" for name in KEPT)):
            call(["umount", "--lazy", place])
    for path in RUN.iterdir():
        if path.name not in KEPT:
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
