# SPDX-License-Identifier: Apache-2.0
"""`make demo-kubernetes`, as README says it: its output, and no remains after any end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.integration.commands import eventually
from tests.integration.images import ROOT
from tests.kubernetes.harness.counts import count

pytestmark = pytest.mark.usefixtures("beside_a_cluster")
COMMAND = ("make", "demo-kubernetes")
# Signals as from a terminal: scripts of a process that ignores SIGINT, such as a shell's background job,
# ignore it too.
INTERRUPTIBLE = ("env", "--default-signal=INT")
TIME_S = 240


def environment(**changed: str) -> dict[str, str]:
    """Return a user's environment, without another make and a cluster of tests."""
    plain = {name: text for name, text in os.environ.items() if "MAKE" not in name}
    return {**{name: text for name, text in plain.items() if not name.startswith("CGPU_")}, **changed}


def left() -> list[str]:
    cgroups = [str(path) for path in cgroups_without_owner()]
    places = [
        str(path) for path in map(Path, ("/run/cgpu_km", "/run/demo", "/var/lib/kubelet")) if path.exists()
    ]
    return [*cgroups, *places, *map(str, processes())]


def cgroups_without_owner() -> Iterator[Path]:
    """Yield those of clusters whose script has ended; its number is the end of their name."""
    for path in Path("/sys/fs/cgroup").glob("**/opencgpu-kubernetes-*"):
        if has_ended(int(path.name.rpartition("-")[2])):
            yield path


def has_ended(number: int) -> bool:
    """Tell whether a process has ended; one that was not waited for yet has no program in /proc."""
    return not Path(f"/proc/{number}/exe").exists()


def next_run_removes_them() -> bool:
    """Have in-cluster run anything, and tell whether no cgroup is without an owner any more."""
    words = ["scripts/kubernetes/in-cluster", "/nowhere", "1.36", "/nowhere", "true"]
    subprocess.run(words, cwd=ROOT, check=True, timeout=60)
    return not list(cgroups_without_owner())


def processes() -> Iterator[list[str]]:
    """Yield the words of each process that has to do with the demo; others may have clusters of their own."""
    for one in psutil.process_iter(["cmdline"]):
        words = one.info["cmdline"] or []
        if any("kubernetes.story" in word or "/run/demo" in word for word in words):
            yield words


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    before = left()
    yield
    eventually(lambda: left() == before, f"nothing is left but {before}", 15, instead=left)


@pytest.mark.slow
def test_demo() -> None:
    """Two pods run, a third waits with Kubernetes' reason, goes on when one ends, and all is given back."""
    done = subprocess.run(
        COMMAND, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=TIME_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "Done. Nothing of the cluster is left."
    parts = dict(re.findall(r"^== (\w+ \w+).*\n((?:(?!== ).*\n)*)", done.stdout, re.MULTILINE))
    assert "Simulated:  the GPU" in parts["A cluster"]
    assert inspected(parts["The node"]) == ["0/15 (0%)"]
    assert "aliyun.com/gpu-mem: 6" in parts["Two pods"]
    assert re.search(r"^  first +1/1 +Running", parts["Two pods"], re.MULTILINE)
    assert re.search(r"^  second +1/1 +Running", parts["Two pods"], re.MULTILINE)
    assert inspected(parts["Two pods"]) == ["12/15 (80%)"]
    assert "size of the card:  6043 MiB" in parts["What a"]
    assert "refused, the driver says out of memory" in parts["What a"]
    assert re.search(r"^  third +0/1 +Pending", parts["A third"], re.MULTILINE)
    assert re.search(r"FailedScheduling +Pod/third +.*cannot allocate all claims", parts["A third"])
    assert inspected(parts["A third"]) == ["12/15 (80%)"]
    assert re.search(r"^  third +1/1 +Running", parts["The first"], re.MULTILINE)
    assert "first" not in parts["The first"].rpartition("kubectl inspect")[2]
    assert inspected(parts["All pods"]) == ["0/15 (0%)"]
    assert "15109 MiB: all of the card" in parts["All pods"]


def test_before_kubernetes_is_built() -> None:
    """While Kubernetes is compiled, the demo shows a card of a real engine and the webhook's own template."""
    place = ["scripts/kubernetes/in-cluster", "/nowhere", "1.36", "/run/demo"]
    words = [*place, sys.executable, "-m", "scripts.kubernetes.story", "before"]
    shown = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=TIME_S, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "Tesla T4" in shown.stdout
    assert "memory: 6144Mi" in shown.stdout


def inspected(part: str) -> list[str]:
    return re.findall(r"^\$ kubectl inspect cgpu.*\n(?:  .*\n)*?  (\d+/15 \(\d+%\))$", part, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("sent", count([signal.SIGKILL], [signal.SIGINT, signal.SIGTERM, signal.SIGKILL]))
def test_interrupted(sent: signal.Signals) -> None:
    """An end in the middle, by Ctrl-C or worse, leaves nothing of the demo."""
    process = subprocess.Popen(
        [*INTERRUPTIBLE, *COMMAND],
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("$ kubectl apply"):
            break
    assert list(processes()) != []
    os.killpg(process.pid, sent)
    assert process.wait(30) != 0
    process.stdout.close()
    eventually(lambda: list(processes()) == [], "its processes have ended", 15)
    if sent == signal.SIGKILL:
        # Empty cgroups had no process left to remove them; the last of their processes may still be ending.
        eventually(next_run_removes_them, "none of its cgroups is left", 15)
