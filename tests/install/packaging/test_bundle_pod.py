# SPDX-License-Identifier: Apache-2.0
"""The bundle's installer as a pod that starts the engine, on a bare node with /etc and /usr read-only.

tests/kubernetes has such pods of a kubelet. Here they end with cgroups of version 1, and of version 2.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.install.packaging.bare_node import CGROUPS, RUNTIME, TOTAL, BareNode, contents, make_container
from tests.integration.commands import eventually
from tests.packages import ROOT

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(1200)]

# Version 2 without its controllers lies beside version 1 on some machines.
UNIFIED = CGROUPS / "unified"
LAYOUTS = (CGROUPS, UNIFIED) if UNIFIED.exists() else (CGROUPS,)
HOME = "/var/opencgpu/current"
CALLS = "while /cgpu-probe info; do /busybox sleep 0.1; done; echo failed"
INTO_GROUP = 'echo 0 >"$1/cgroup.procs"; shift; exec "$@"'


class Pod:
    """The installer in a cgroup of its own. Whoever ends that ends it, as a kubelet does."""

    def __init__(self, node: BareNode, bundle: Path, group: Path, cgroups: Path) -> None:
        self.node = node
        self.group = group
        #: what the node has at /sys/fs/cgroup
        self.cgroups = cgroups
        self._serves = node.path("/run/cgpu-container-runtime.sock")
        own = {"CGPU_NODE_PID": str(node.pid), "CGPU_BUNDLE": str(bundle), "CGPU_FOLDER": "/var"}
        self._environment = {**os.environ, **own, "CGPU_STARTED_BY": "pod", "CGPU_SIMULATE": "T4"}
        self._environment["CGPU_WAIT"] = "true"
        self._process: subprocess.Popen[bytes] | None = None

    def _command(self, word: str) -> list[str | Path]:
        installer = ROOT / "install/packaging/kubernetes/node-installer"
        return ["/bin/sh", "-c", INTO_GROUP, "sh", self.group, installer, word]

    def start(self) -> None:
        self._serves.unlink(missing_ok=True)
        self._process = subprocess.Popen(self._command("install"), env=self._environment)
        eventually(self._serves.exists, "the runtime's server listens")

    def end(self) -> None:
        while pids := (self.group / "cgroup.procs").read_text().split():
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            if self._process is not None:
                self._process.wait()

    def uninstall(self) -> tuple[int, str]:
        done = subprocess.run(
            self._command("uninstall"),
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=200,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(params=LAYOUTS)
def pod(root: Path, bundle: Path, request: pytest.FixtureRequest) -> Iterator[Pod]:
    """Make the pod of a node with nothing of ours."""
    cgroups: Path = request.param
    node = BareNode(root, "usr etc", cgroups)
    # A pod's processes are in each hierarchy of version 1; one is enough to end them.
    group = (cgroups if (cgroups / "cgroup.procs").exists() else cgroups / "pids") / f"test-{os.getpid()}"
    group.mkdir()
    made = Pod(node, bundle, group, cgroups)
    yield made
    made.end()
    node.attempt(f"{HOME}/bin/cgpud", "--stop", "--force")
    node.end()
    group.rmdir()


def engine(node: BareNode) -> int:
    """Return the process of the daemon."""
    pid = json.loads(node.run(f"{HOME}/bin/cgpud", "--status"))["pid"]
    assert isinstance(pid, int)
    return pid


def go_on(calls: subprocess.Popen[str]) -> None:
    """See calls come through that the container makes from now on: many more may wait to be read."""
    assert calls.stdout is not None
    pipe, earlier, said = calls.stdout.fileno(), b"", b""
    os.set_blocking(pipe, False)
    with contextlib.suppress(BlockingIOError):
        while more := os.read(pipe, 1 << 16):
            earlier = more
    os.set_blocking(pipe, True)
    # One may have waited for room in the pipe.
    while said.count(b"\n") < 4 and (more := os.read(pipe, 1 << 12)):
        said += more
    lines = (earlier + said).decode().split("\n")[-5:-1]
    assert all(TOTAL in line for line in lines), lines
    assert said.count(b"\n") >= 4, f"the container has ended: {lines}"


def test_pods_come_and_go(pod: Pod, root: Path) -> None:
    """Engine and slices outlive each pod's cgroup; the last pod leaves the node as it was."""
    node, before = pod.node, contents(root)
    pod.start()
    first = engine(node)
    make_container(node, "/busybox", "sh", "-c", CALLS)
    calls = node.start(f"{HOME}/{RUNTIME}", "run", "--bundle", "/run/bundle", "busy")
    go_on(calls)
    for _ in range(2):
        pod.end()
        go_on(calls)
        pod.start()
        assert engine(node) == first
    pod.end()
    of_the_engine = Path(f"/proc/{first}/cgroup").read_text()
    assert pod.group.name not in of_the_engine
    go_on(calls)
    status, said = pod.uninstall()
    assert (status, "sliced containers run" in said) == (1, True), said
    assert engine(node) == first
    go_on(calls)
    node.run("runc", "kill", "busy", "KILL")
    calls.communicate()
    status, said = pod.uninstall()
    assert status == 0, said
    assert contents(root) == before
    assert [str(one) for one in pod.cgroups.glob("opencgpu")] == []
    # Logs and notes of the engine go with /run.
    left = node.run("find", "/run", "!", "-type", "d").split()
    assert [one for one in left if not one.startswith("/run/cgpu/")] == ["/run/bundle/config.json"]
