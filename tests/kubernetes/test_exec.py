# SPDX-License-Identifier: Apache-2.0
"""Commands in pods run in a process of their own: a thread here once read another connection."""

from __future__ import annotations

import threading

import pytest

from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.node import PROBE_IMAGE

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "waits"},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": PROBE_IMAGE, "command": ["/busybox", "sleep", "600"]}],
    },
}


def test_commands_in_pods(cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command's output and status come back, and one that cannot run is an error; no thread reads here."""
    cluster.apply(POD, namespace)
    cluster.await_pod("waits", namespace, "Running")
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def noted(thread: threading.Thread) -> None:
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", noted)
    done = cluster.exec("waits", namespace, "/busybox", "sh", "-c", "echo out; echo error >&2; exit 3")
    assert (done.returncode, done.stdout) == (3, "out\n")
    assert "error\n" in done.stderr
    assert cluster.exec("waits", namespace, "/busybox", "true", container="main").returncode == 0
    assert started == []
    with pytest.raises(AssertionError, match=r"exec in nowhere: .*not found"):
        cluster.exec("nowhere", namespace, "/busybox", "true")
