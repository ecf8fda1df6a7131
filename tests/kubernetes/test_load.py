# SPDX-License-Identifier: Apache-2.0
"""Many pods at once: never more than a card is promised, all that fit run, and in the end all have run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from lightkube.resources.core_v1 import Pod
from lightkube.resources.resource_v1 import ResourceClaimTemplate

from cgpu.kubernetes.node.units import published_mib, share_mib
from tests.integration.commands import eventually
from tests.kubernetes.faults import ONE_CARD
from tests.kubernetes.harness import seen
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.counts import count, dice
from tests.kubernetes.harness.slices import Slices, left, request, with_agent
from tests.kubernetes.harness.witness import Witness, witness

PODS = count(40, 200)
SIZES = (512, 768, 1000, 1536, 2048, 3072, 4096, 6144, 10240)  # MiB of the 15360 that a T4 offers
T4 = 15109
MAX_INST = 25
EACH_S = 6  # what a pod may take, on two busy processors
pytestmark = pytest.mark.timeout(count(300, 3600))
# They run until all that fit have been seen to run beside each other.
UNTIL_TOLD = "until [ -e /seen/.go ]; do /busybox sleep 0.3; done"


@pytest.fixture
def slices(cluster: Cluster, namespace: str) -> Iterator[Slices]:
    """Yield a cluster with an agent, whose cards have as many places as there can be."""
    before = cluster.engine.read("0/max_inst")
    for gpu in cluster.engine.gpus():
        cluster.engine.write(f"{gpu}/max_inst", str(MAX_INST))
    with with_agent(cluster, namespace) as found:
        yield found
    for gpu in cluster.engine.gpus():
        cluster.engine.write(f"{gpu}/max_inst", before)


@ONE_CARD.with_args(run=False)  # it would wait for five minutes
@pytest.mark.enforcement
def test_many_pods_at_once(slices: Slices, tmp_path: Path) -> None:
    """Pods of random sizes, all at once, on two cards."""
    chance = dice()
    sizes = {f"p{number}": chance.choice(SIZES) for number in range(PODS)}
    with witness(slices.cluster.client("admin"), slices.namespace) as seeing:
        for size in set(sizes.values()):
            template(slices, size)
        for name, size in sizes.items():
            make_pod(slices, name, size, tmp_path)
        eventually(lambda: has_settled(slices, seeing, sizes), "all that fit run", 60 + EACH_S * PODS)
        (tmp_path / ".go").touch()
        eventually(lambda: phases(slices) == {"Succeeded"}, "all have run", 60 + EACH_S * PODS)
        eventually(lambda: left() == [], "nothing is left", 60)
    found = {one.pod: one for one in seen.sights(tmp_path)}
    assert {name: list(one.cards.values()) for name, one in found.items()} == {
        name: [share_mib(T4, size, "card")] for name, size in sizes.items()
    }
    by_claim = {name: one.device for name, one in seeing.given.values()}
    assert len(by_claim) == PODS
    for name, one in found.items():
        ((claim, device),) = [item for item in by_claim.items() if item[0].startswith(f"{name}-")]
        assert list(one.cards) == [device], claim
    slices.cluster.api.deletecollection(ResourceClaimTemplate, namespace=slices.namespace)


def template(slices: Slices, size: int) -> None:
    spec = {"spec": {"devices": {"requests": [request(f"{size}Mi")]}}}
    slices.make("ResourceClaimTemplate", f"of-{size}", spec, "resource.k8s.io/v1")


def make_pod(slices: Slices, name: str, size: int, folder: Path) -> None:
    claims = [{"name": "gpu", "resourceClaimTemplateName": f"of-{size}"}]
    slices.pod(name, {}, resourceClaims=claims, **seen.looking(folder, UNTIL_TOLD))


def listed(slices: Slices) -> Sequence[Pod]:
    return list(slices.cluster.api.list(Pod, namespace=slices.namespace, chunk_size=500))


def phases(slices: Slices) -> set[str]:
    return {str(pod.status.phase) for pod in listed(slices) if pod.status is not None}


def has_settled(slices: Slices, seeing: Witness, sizes: dict[str, int]) -> bool:
    """Say whether each pod that has been given a part runs, and no other one would fit beside them."""
    running = {
        str(pod.metadata.name)
        for pod in listed(slices)
        if pod.metadata is not None and pod.status is not None and pod.status.phase == "Running"
    }
    taken = list(seeing.given.values())
    if {name.rpartition("-gpu-")[0] for name, _ in taken} != running:
        return False
    smallest = min((size for name, size in sizes.items() if name not in running), default=T4 + 1)
    for device, mib in seeing.mib.items():
        parts = [one for _, one in taken if one.device == device]
        free = published_mib(mib, "card") - sum(one.memory for one in parts)
        if free >= smallest and len(parts) < MAX_INST:
            return False
    return True
