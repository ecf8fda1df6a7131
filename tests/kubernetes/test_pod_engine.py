# SPDX-License-Identifier: Apache-2.0
"""The installer's pod starts the engine, as on nodes that take no service, and ends while containers run.

The node is the bare one of the harness, so that nothing of it can serve the installer but the kernel.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Node, Pod, PodEviction

from cgpu import __version__
from tests.integration.commands import call, eventually
from tests.integration.engine import RUN, TREE
from tests.integration.probe import NO_MEMORY, step
from tests.kubernetes import images
from tests.kubernetes.harness import bare_node, chart, release
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.credentials import NODE
from tests.kubernetes.harness.node import CONTAINERD, here, load, tag
from tests.kubernetes.harness.release import NAMESPACE, TAGS, Release, name_of
from tests.kubernetes.harness.slices import Pods, left
from tests.packages import OLD

# Images are built where they are first asked for.
pytestmark = pytest.mark.timeout(1200)

FOLDER = Path("/var")  # /opt would do; this is what can be written on most such systems
HOME = FOLDER / "opencgpu"
REPOSITORY = "opencgpu.test/node"
VALUES = (
    "installer.startedBy=pod",
    "installer.simulate=T4:2",
    f"installer.folder={FOLDER}",
    f"installer.image.repository={REPOSITORY}",
    f"installer.image.tag={TAGS[0]}",
)
# One call of the driver after the other, each noted, and one that fails is the last.
CALLS = "while /cgpu-probe info >/last 2>&1; do echo >>/calls; /busybox sleep 0.1; done; echo >/failed"


@pytest.fixture(scope="module")
def untouched(cluster: Cluster) -> Iterator[Mapping[str, str]]:
    """Have the cluster's node be the bare one; yield what its files are before the installer comes."""
    for one, archive, name in (
        (TAGS[0], images.node_image(), images.NODE_NAME),
        (TAGS[1], images.older_node_image(), images.OLDER_NODE_NAME),
    ):
        load(archive)
        tag(f"{REPOSITORY}:{one}", name)
    cluster.engine.stop()
    cluster.move_node(bare_node.PLACE)
    own, cluster.engine.cgpud = cluster.engine.cgpud, [*bare_node.PLACE.enter, HOME / "current/bin/cgpud"]
    try:
        yield bare_node.contents()
    finally:
        cluster.engine.stop()
        cluster.engine.cgpud = own
        cluster.move_node(here(cluster.settings))
        cluster.engine.start()


@pytest.fixture(scope="module")
def installed(cluster: Cluster, untouched: Mapping[str, str]) -> Iterator[Release]:
    """A release whose installer starts the engine."""
    with release.installed(cluster, *VALUES) as found:
        # The runtime's new path; without systemd a person does this.
        cluster.components["containerd"].restart()
        yield found


def begin_calls(installed: Release, namespace: str) -> Pods:
    """Return pods in a namespace of the test, of which "busy" asks the driver all the time."""
    made = Pods(installed.cluster, namespace)
    made.one("busy", "1Gi")
    begin = f"({CALLS}) >/dev/null 2>&1 </dev/null &"
    made.cluster.exec("busy", namespace, "/busybox", "sh", "-c", begin)
    return made


@pytest.fixture
def pods(installed: Release, namespace: str) -> Iterator[Pods]:
    """Have such pods until the test ends."""
    yield begin_calls(installed, namespace)
    installed.cluster.api.deletecollection(Pod, namespace=namespace)
    eventually(lambda: left() == [], "the node has nothing of claims", 60)


def calls(pods: Pods) -> int:
    """Return how many calls the container has made. Fails where one of them did."""
    count = "/busybox wc -l </calls; /busybox ls /failed 2>/dev/null; true"
    said = pods.cluster.exec("busy", pods.namespace, "/busybox", "sh", "-c", count).stdout.split()
    assert len(said) == 1, pods.cluster.exec("busy", pods.namespace, "/busybox", "cat", "/last").text
    return int(said[0])


def go_on(pods: Pods) -> None:
    """The container's calls come through, and its limit holds."""
    before = calls(pods)
    eventually(lambda: calls(pods) > before, "calls come through")
    assert [mib for _, mib in pods.seen("busy")] == [1007]
    over = pods.cluster.exec("busy", pods.namespace, "/cgpu-probe", "alloc=1100M")
    assert step(over, "alloc").number("status") == NO_MEMORY
    assert [
        one.restartCount for one in pods.cluster.pod_status("busy", pods.namespace).containerStatuses or ()
    ] == [0]


def installer(installed: Release) -> str:
    (one,) = installed.pods("node-installer")
    return name_of(one)


def await_another(installed: Release, before: str) -> None:
    """Wait until another pod of the installer is ready."""

    def is_ready() -> bool:
        found = [one for one in installed.pods("node-installer") if name_of(one) != before]
        statuses = [one.status.containerStatuses or () for one in found if one.status is not None]
        return [status.ready for one in statuses for status in one] == [True]

    eventually(is_ready, "another pod of the installer is ready", 120)


def cgroups_of(words: str) -> list[str]:
    """Return the cgroups of the processes whose command line has some words."""
    found = call(["pgrep", "-f", words]).stdout.split()
    return [Path(f"/proc/{pid}/cgroup").read_text() for pid in found]


def test_who_runs_where(installed: Release, pods: Pods) -> None:
    """Daemon, keeper and the cards' server are in no pod, the runtime's server in the installer's."""
    own = pods.cluster.settings.cgroup
    engine = cgroups_of(f"^{HOME}.*kmod.daemon.main|cgpu-sim")
    assert len(engine) >= 2
    assert [one for one in engine if own in one] == []
    assert cgroups_of("cgpu-container-runtime-server")
    assert all(own in one for one in cgroups_of("^[^ ]*/python3.*cgpu-container-runtime-server"))
    assert str(HOME) in bare_node.PLACE.path(CONTAINERD).read_text()
    go_on(pods)


@pytest.mark.parametrize("how", ["evicted", "killed"])
def test_the_pod_goes(installed: Release, pods: Pods, how: str) -> None:
    """An end of the pod ends no process of the engine; the next pod finds it, and calls go on meanwhile."""
    before, engine = installer(installed), pods.cluster.engine.pid()
    if how == "evicted":
        pods.cluster.api.create(PodEviction(metadata=ObjectMeta(name=before)), before, namespace=NAMESPACE)
    else:
        pods.cluster.api.delete(Pod, before, namespace=NAMESPACE, grace_period=0)
    await_another(installed, before)
    assert pods.cluster.engine.pid() == engine
    go_on(pods)


def engine_of(pods: Pods) -> tuple[object, object]:
    """Return the version of the engine, and how many containers it has."""
    said = pods.cluster.engine.status()
    assert isinstance(said["containers"], list)
    return said["version"], len(said["containers"])


@pytest.mark.parametrize(("number", "version"), [(1, OLD), (0, __version__)])
def test_another_version(installed: Release, pods: Pods, number: int, version: str) -> None:
    """The pod of another image exchanges the engine: calls wait, none fails, what is charged stays.

    The second time the version before comes back, which is on the node still.
    """
    before, (was, count) = installer(installed), engine_of(pods)
    assert was != version
    update = ("--reuse-values", "--wait", "--set", f"installer.image.tag={TAGS[number]}")
    installed.must("upgrade", str(chart.CHART), *update)
    await_another(installed, before)
    # The pod is ready while the engine before still serves.
    eventually(lambda: engine_of(pods) == (version, count), f"version {version} runs")
    go_on(pods)
    pods.one("later", "2Gi")
    assert [mib for _, mib in pods.seen("later")] == [2014]
    assert os.readlink(bare_node.PLACE.path(HOME / "current")) == version


def test_the_kubelet_restarts(installed: Release, pods: Pods) -> None:
    """A restart of the kubelet changes nothing for the engine and the containers."""
    engine = pods.cluster.engine.pid()
    pods.cluster.components["kubelet"].restart()
    # The node is still called ready while the new kubelet does not know its pods yet.
    known = ("exec", "busy", "--namespace", pods.namespace, "--", "/busybox", "true")
    eventually(lambda: pods.cluster.kubectl(*known).returncode == 0, "the kubelet knows the pod", 60)
    assert pods.cluster.engine.pid() == engine
    go_on(pods)


def test_the_daemon_is_killed(installed: Release, pods: Pods) -> None:
    """Its keeper starts it again: calls wait meanwhile, and none fails."""
    engine = pods.cluster.engine
    engine.await_restart(engine.kill())
    go_on(pods)


def test_the_engine_is_lost(installed: Release, namespace: str) -> None:
    """Without daemon and keeper the pod is not alive: it is started again, and starts the engine."""
    for pid in call(["pgrep", "-f", f"^{HOME}.*(cgpud|kmod.daemon.main)"]).stdout.split():
        os.kill(int(pid), signal.SIGKILL)
    eventually(lambda: not os.path.exists(TREE / "version"), "no engine runs")
    eventually(lambda: os.path.exists(TREE / "version"), "the pod has started one", 180)
    again = Pods(installed.cluster, namespace)
    again.one("later", "2Gi")
    assert [mib for _, mib in again.seen("later")] == [2014]


def label(cluster: Cluster, value: str) -> None:
    cluster.api.patch(Node, NODE, {"metadata": {"labels": {"opencgpu.io/node": value}}})


def remover_says(cluster: Cluster, line: str) -> None:
    words = ("logs", "--namespace", NAMESPACE, "--selector", "app.kubernetes.io/component=node-remover")

    def said() -> str:
        return cluster.kubectl(*words).text

    eventually(lambda: line in said(), f"the remover says: {line}", instead=said)


def of_the_engine() -> list[str]:
    """Return processes, mounts, sockets and cgroups of an engine and its runtime."""
    found = call(["pgrep", "-af", f"^{HOME}|cgpu-sim|cgpu-container-runtime"]).stdout.splitlines()
    mounted = [line for line in Path("/proc/mounts").read_text().splitlines() if "cgpu" in line]
    paths = [*RUN.glob("*.sock"), *RUN.parent.glob("cgpu-*"), *Path("/sys/fs/cgroup").glob("opencgpu")]
    return [*found, *mounted, *map(str, paths)]


def test_the_node_is_removed(installed: Release, namespace: str, untouched: Mapping[str, str]) -> None:
    """The remover refuses while slices are in use, whose pods can end; then it leaves no trace.

    The last one here, as the node has no engine then.
    """
    pods = begin_calls(installed, namespace)
    label(pods.cluster, "remove")
    try:
        remover_says(pods.cluster, "sliced containers run")
        go_on(pods)
        pods.cluster.delete_pod("busy", pods.namespace)
        remover_says(pods.cluster, "node-installer: removed")
        eventually(lambda: of_the_engine() == [], "nothing of the engine is left", instead=of_the_engine)
        # What a person does without systemd.
        pods.cluster.components["containerd"].restart()
        assert bare_node.contents() == untouched
        installed.must("uninstall", "--wait")
        assert bare_node.contents() == untouched
    finally:
        label(pods.cluster, "install")
