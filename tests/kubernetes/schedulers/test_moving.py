# SPDX-License-Identifier: Apache-2.0
"""A node moves from HAMi's enforcement to ours and back, while pods run on it and on another one."""

from __future__ import annotations

from pathlib import Path

from lightkube.resources.core_v1 import Pod

from tests.integration.commands import eventually
from tests.kubernetes.harness import chart
from tests.kubernetes.harness.cluster import Cluster
from tests.kubernetes.harness.other_node import other_node
from tests.kubernetes.harness.slices import reserved
from tests.kubernetes.schedulers.test_decisions import ACCOUNT, NAME, Hami, hami_node, uuids, values_of

HAMIS = {"NVIDIA_VISIBLE_DEVICES": "all", "CUDA_DEVICE_MEMORY_LIMIT_0": "3000m"}


def hamis_own(hami: Hami, name: str, gpu: str, mib: int) -> None:
    """Have a pod that HAMi's library enforces: of the usual runtime."""
    hami.theirs(name, HAMIS, runtimeClassName=None)
    hami.place(name, f"{gpu},NVIDIA,{mib},0:")
    hami.running(name)


def runs_as_before(hami: Hami, name: str) -> bool:
    statuses = hami.cluster.pod_status(name, hami.namespace).containerStatuses or ()
    return hami.has_started(name) and [one.restartCount for one in statuses] == [0]


def memory() -> list[int]:
    return sorted(mib for _, mib, _ in reserved())


def test_a_node_moves(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    """Pods go on through both moves, also elsewhere; those with the runtime class have slices meanwhile.

    What HAMi's own pods have counts in the ledger beside slices: nobody is given it, too.
    """
    options = values_of(tmp_path, {"hami": ACCOUNT}, "admission.enabled=false")
    first, second = uuids()
    with chart.with_other_schedulers(cluster, options), other_node(cluster, "hami", NAME) as beside:
        before = Hami(cluster, namespace, beside.agent, ())
        before.folder = tmp_path
        before.theirs("elsewhere", HAMIS, nodeName=beside.name, terminationGracePeriodSeconds=0)
        before.decide("elsewhere", f"{first},NVIDIA,5000,0:", node=beside.name)
        eventually(lambda: len(beside.ledger()) == 1, "the pod elsewhere has its own")
        elsewhere = beside.ledger()
        hamis_own(before, "before", first, 3000)
        assert memory() == []
        with hami_node(cluster, namespace, options) as hami:
            hami.folder = tmp_path
            eventually(lambda: memory() == [3000], "what HAMi has given counts")
            hami.theirs("sliced", HAMIS)
            hami.place("sliced", f"{first},NVIDIA,4000,0:")
            hami.running("sliced")
            assert hami.seen("sliced", "c0") == [(first, 4000)]
            hami.theirs("excess", HAMIS)
            hami.place("excess", f"{first},NVIDIA,9000,0:")
            hami.events_say("excess", "ShareRefused")
            # Back again: new pods do without the runtime class, and the label goes once no slice is left.
            hamis_own(hami, "after", second, 6000)
            assert hami.seen("sliced", "c0") == [(first, 4000)]
            for name in ("sliced", "excess"):
                cluster.delete_pod(name, namespace)
            eventually(lambda: memory() == [3000, 6000], "no slice is left")
            assert all(runs_as_before(hami, name) for name in ("before", "after"))
            assert beside.ledger() == elsewhere
            cluster.api.delete(Pod, "elsewhere", namespace=namespace, grace_period=0)
            eventually(lambda: not beside.ledger(), "the pod elsewhere has given back its own")
