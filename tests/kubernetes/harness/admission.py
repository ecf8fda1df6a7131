# SPDX-License-Identifier: Apache-2.0
"""The webhook of admission, as a process beside the cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.kubernetes.harness import chart
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.control_plane import is_ready


@contextmanager
def with_admission(cluster: Cluster) -> Iterator[None]:
    """Have the webhook for a time; without it no pod that asks would start, so it is taken away again."""
    chart.install(cluster)
    config = cluster.service_account("cgpu-admission", chart.NAMESPACE)
    place = ["--address", chart.ADDRESS, "--port", str(chart.PORT), "--name", chart.ADDRESS]
    command = [sys.executable, "-m", "cgpu.main", "kubernetes", "admission"]
    health = is_ready(f"https://{chart.ADDRESS}:{chart.PORT}/healthz")
    cluster.start("admission", [*command, *place, "--kubeconfig", str(config)], ready=health)
    yield
    chart.remove_webhooks(cluster)
