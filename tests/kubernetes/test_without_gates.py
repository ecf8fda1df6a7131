# SPDX-License-Identifier: Apache-2.0
"""A cluster that gives out whole devices alone: Kubernetes 1.34 with its feature gates as they are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lightkube import ApiError
from lightkube.resources.resource_v1 import ResourceClaimTemplate, ResourceSlice

from tests.integration.commands import eventually
from tests.kubernetes.harness.chart import with_admission
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.slices import Slices, by_limits, with_agent

pytestmark = pytest.mark.without_gates
OFF = "the feature gate DRAConsumableCapacity is off"


@pytest.fixture
def slices(cluster: Cluster, namespace: str) -> Iterator[Slices]:
    with with_agent(cluster, namespace, publishes=False) as found, with_admission(cluster):
        yield found


def test_no_gpu_is_published(slices: Slices) -> None:
    """The agent says why, once, and goes on; the scheduler never sees a card that it would give out whole."""
    eventually(lambda: slices.agent.lines(OFF) != [], "the agent names the feature gate", 30)
    assert list(slices.cluster.api.list(ResourceSlice)) == []
    assert slices.agent.runs
    assert len(slices.agent.lines(OFF)) == 1


def test_a_pod_that_asks_is_refused(slices: Slices) -> None:
    """The user reads which feature gate is off, no template is left; a pod that asks for nothing starts."""
    with pytest.raises(ApiError, match=OFF):
        slices.make("Pod", "asks", by_limits({"aliyun.com/gpu-mem": 3}))
    assert list(slices.cluster.api.list(ResourceClaimTemplate, namespace=slices.namespace)) == []
    slices.make("Pod", "plain", by_limits({"cpu": "10m"}))
    slices.running("plain")
