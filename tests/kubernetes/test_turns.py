# SPDX-License-Identifier: Apache-2.0
"""One claim of several containers or pods: one after the other, each request by itself, never at once."""

from __future__ import annotations

import time

from tests.integration.commands import eventually
from tests.kubernetes.harness.slices import AGAIN_S, Slices, container, request, reserved

LOOK = ["/cgpu-probe", "gpu=0", "info"]


def using(claim: str, request: str | None = None) -> dict[str, object]:
    """Return a container's resources: a claim, or one request of it."""
    return {"claims": [{"name": claim, **({"request": request} if request is not None else {})}]}


def test_init_containers_and_the_main_one(slices: Slices) -> None:
    """Containers of a pod that run one after the other have one share in turn."""
    slices.claim("turns", "3Gi")
    inits = [container(name, LOOK, resources=using("turns")) for name in ("first", "second")]
    slices.pod("turns", {"main": ["turns"]}, initContainers=inits)
    slices.running("turns")
    assert [mib for _, mib in slices.seen("turns")] == [3021]
    for name in ("first", "second"):
        assert f"total={3021 << 20} " in slices.cluster.log("turns", slices.namespace, name)
    assert len(reserved()) == 1


def test_pods_one_after_the_other(slices: Slices) -> None:
    """A claim that users keep serves one pod after the other."""
    slices.claim("kept", "3Gi")
    for name in ("a", "b"):
        slices.pod(name, {}, containers=[container(resources=using("kept"))], resourceClaims=named("kept"))
        slices.running(name, AGAIN_S)
        assert [mib for _, mib in slices.seen(name)] == [3021]
        slices.cluster.delete_pod(name, slices.namespace)
    eventually(lambda: reserved() == [], "the share is given back", 60)


def named(claim: str) -> list[dict[str, str]]:
    return [{"name": claim, "resourceClaimName": claim}]


def test_a_pod_joins_a_claim(slices: Slices) -> None:
    """A second pod has another request of a claim at once; for the same one, an event says why not."""
    requests = [request("1Gi", "one"), request("2Gi", "two")]
    slices.make("ResourceClaim", "shared", {"devices": {"requests": requests}}, "resource.k8s.io/v1")
    for name, wanted, mib in (("a", "one", 1007), ("b", "two", 2014)):
        began = time.monotonic()
        main = container(resources=using("shared", wanted))
        slices.pod(name, {}, containers=[main], resourceClaims=named("shared"))
        slices.running(name)
        assert [size for _, size in slices.seen(name)] == [mib]
        assert time.monotonic() - began < 30
    late = container(resources=using("shared", "one"))
    slices.pod("c", {}, containers=[late], resourceClaims=named("shared"))
    slices.events_say("c", "uses share")
    assert [size for _, size in slices.seen("a")] == [1007]
