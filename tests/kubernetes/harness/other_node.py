# SPDX-License-Identifier: Apache-2.0
"""A second node of the cluster, for whose pods another scheduler decides, without a kubelet.

Its `cgpud` with two simulated cards and its agent are real, in mounts of their own. Nobody runs its pods: a
test says of them what a kubelet would.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Node

from cgpu.client.tree import Tree
from cgpu.kubernetes.names import DRIVER, SCHEDULER_LABEL
from tests.integration.commands import Server, call, eventually, must
from tests.integration.engine import CGPUD, MIB
from tests.kubernetes.harness import chart
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.slices import AGENT

# Share, UUID of the card, MiB.
Entry = tuple[str, str, int]
MOUNTS = """
set -e
mount -t tmpfs tmpfs /run
mkdir -p /run/cdi
"$0" --simulate T4:2 --config "$1" >&2
echo ready
exec sleep infinity
"""


@dataclass
class OtherNode:
    """One such node. folder: of its kubelet; keeper: the process whose mounts are the node's."""

    name: str
    folder: Path
    keeper: subprocess.Popen[str]
    agent: Server

    def _below(self, path: str) -> Path:
        return Path(f"/proc/{self.keeper.pid}/root{path}")

    @property
    def tree(self) -> Tree:
        return Tree(str(self._below("/run/cgpu_km")))

    def ledger(self) -> set[Entry]:
        """Return what the engine has reserved."""
        tree = self.tree
        return {
            (one.share, gpu.uuid, one.slice.memsize // MIB)
            for gpu in tree.gpus()
            for one in tree.reserved(gpu.index)
        }

    def left(self) -> list[str]:
        """Return the names of the agent's records and of the runtime's files."""
        places = (self.folder / "plugins" / DRIVER / "claims", self._below("/run/cgpu/shares"))
        return [path.name for place in places for path in place.rglob("*.json")]

    def waits(self) -> bool:
        """Return whether containers of the node wait for what another scheduler decides."""
        return self._below("/run/cgpu/shares/pods").is_dir()

    def kill_engine(self) -> None:
        """Kill the engine as a crash would; it is started again with what it had."""
        before = self._engine_pid()
        os.kill(before, signal.SIGKILL)
        eventually(lambda: self._engine_pid() not in (0, before), "the engine is started again")

    def _engine_pid(self) -> int:
        said = call([*inside(self.keeper.pid), CGPUD, "--status"])
        return int(json.loads(said.stdout)["pid"]) if said.returncode == 0 else 0


def inside(pid: int) -> list[str]:
    """Return the words by which a command has the mounts of a process."""
    return ["nsenter", f"--mount=/proc/{pid}/ns/mnt", "--"]


@contextmanager
def other_node(cluster: Cluster, system: str, scheduler: str) -> Iterator[OtherNode]:
    """Yield a node of a system, whose scheduler has that name. The chart has to be applied."""
    name = f"other-{system}"
    folder = cluster.settings.logs / name
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "kubelet").mkdir(parents=True)
    config = folder / "config.yaml"
    config.write_text("{}\n")
    cluster.api.create(Node(metadata=ObjectMeta(name=name, labels={SCHEDULER_LABEL: system})))
    keeper = subprocess.Popen(
        ["unshare", "--mount", "--propagation", "private", "bash", "-c", MOUNTS, str(CGPUD), str(config)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == "ready\n", "the engine has started"
        account = shutil.copy(
            cluster.service_account("cgpu-node", chart.NAMESPACE, name), folder / "agent.kubeconfig"
        )
        words = ["--node", name, "--kubeconfig", account, "--kubelet", str(folder / "kubelet")]
        command = [*inside(keeper.pid), *AGENT, *words, "--scheduler", f"{system}={scheduler}"]
        agent = cluster.start(name, command)
        found = OtherNode(name, folder / "kubelet", keeper, agent)
        eventually(found.waits, f"the agent of {name} has read the label")
        yield found
        agent.stop()
        must([*inside(keeper.pid), CGPUD, "--stop", "--force"])
    finally:
        keeper.kill()
        keeper.communicate()
        cluster.api.delete(Node, name)
