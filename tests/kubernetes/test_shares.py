# SPDX-License-Identifier: Apache-2.0
"""Pods with claims of parts of GPUs: given out by Kubernetes' scheduler, prepared by our agent, enforced."""

from __future__ import annotations

import os
import time

import pytest
from lightkube.resources.core_v1 import Pod
from lightkube.resources.resource_v1 import ResourceClaim

from cgpu import shares
from cgpu.client.tree import Tree
from tests.integration.commands import eventually
from tests.integration.engine import MIB, TREE
from tests.integration.probe import NO_MEMORY, step
from tests.kubernetes.faults import ONE_CARD
from tests.kubernetes.harness.slices import AGAIN_S, Slices, container, request, reserved


@pytest.mark.enforcement
def test_a_pod_has_its_share(slices: Slices) -> None:
    """6 of 15 are 6043 MiB, to the byte; engine, file and claim agree; after the pod nothing is left."""
    slices.one("six", "6Gi")
    ((share, device),) = slices.shares_of("six")
    ((uuid, mib),) = slices.seen("six")
    assert (uuid.lower(), mib) == (device, 6043)
    ((held, size, container),) = reserved()
    assert (held, size) == (share, 6043)
    assert container != "-"
    assert shares.read(share).slice.memsize == 6043 * MIB
    over = slices.cluster.exec("six", slices.namespace, "/cgpu-probe", "alloc=7G")
    assert step(over, "alloc").number("status") == NO_MEMORY


@ONE_CARD
def test_equal_sizes_on_two_cards(slices: Slices) -> None:
    """Pods of equal sizes see the card of their own claim each, in any order of starts."""
    names = [f"p{number}" for number in range(4)]
    for name in names:
        slices.claim(name, "7Gi")
    for name in reversed(names):
        slices.pod(name, {"main": [name]})
    for name in names:
        slices.running(name)
    cards = set()
    for name in names:
        ((_, device),) = slices.shares_of(name)
        ((uuid, mib),) = slices.seen(name)
        assert (uuid.lower(), mib) == (device, 7050)
        cards.add(uuid)
    assert len(cards) == 2
    assert len(reserved()) == 4


@ONE_CARD
def test_containers_of_a_pod(slices: Slices) -> None:
    """Two containers with a claim each, one with both GPUs, one with two claims, and one with none."""
    slices.claim("a", "1Gi")
    slices.claim("b", "2Gi")
    slices.claim("c", "1Gi", count=2)
    slices.pod("several", {"one": ["a"], "both": ["c"], "none": []})
    slices.running("several")
    assert [mib for _, mib in slices.seen("several", "one")] == [1007]
    assert [mib for _, mib in slices.seen("several", "both")] == [1007, 1007]
    assert slices.seen("several", "none") == []
    slices.pod("merged", {"main": ["b"]})
    slices.running("merged")
    assert [mib for _, mib in slices.seen("merged")] == [2014]


@ONE_CARD
def test_a_card_that_is_full(slices: Slices) -> None:
    """A pod that finds no card waits with the reason, and starts when another one ends."""
    for name in ("first", "second"):
        slices.one(name, "10Gi")
    slices.claim("third", "10Gi")
    slices.pod("third", {"main": ["third"]})
    slices.events_say("third", "cannot allocate all claims")
    slices.cluster.delete_pod("first", slices.namespace)
    slices.cluster.api.delete(ResourceClaim, "first", namespace=slices.namespace)
    slices.running("third")


def test_a_forged_share(slices: Slices) -> None:
    """A pod that writes another pod's share into its own environment does not start."""
    slices.one("owner", "6Gi")
    ((share, _),) = slices.shares_of("owner")
    name = f"OPENCGPU_SHARE_{share.upper().replace('-', '_')}"
    slices.pod("thief", {}, containers=[container(env=[{"name": name, "value": share}])])
    slices.events_say("thief", "opencgpu: ")
    assert slices.cluster.pod_status("thief", slices.namespace).phase != "Running"
    assert [size for _, size, _ in reserved()] == [6043]


def test_without_the_runtime_class(slices: Slices) -> None:
    """A pod with a claim and without our runtime has no GPU, and never an unlimited one."""
    slices.one("plain", "6Gi", runtimeClassName=None)
    assert slices.seen("plain") == []


def test_a_name_again(slices: Slices) -> None:
    """A pod that was deleted by force, and another one of its name: the second has its own share."""
    slices.one("same", "3Gi")
    ((before, _),) = slices.shares_of("same")
    slices.cluster.api.delete(Pod, "same", namespace=slices.namespace, grace_period=0)
    slices.cluster.api.delete(ResourceClaim, "same", namespace=slices.namespace)
    eventually(
        lambda: not list(slices.cluster.api.list(ResourceClaim, namespace=slices.namespace)), "it is gone", 60
    )
    slices.claim("same", "3Gi")
    slices.pod("same", {"main": ["same"]})
    slices.running("same", AGAIN_S)
    ((after, _),) = slices.shares_of("same")
    assert after != before
    assert [mib for _, mib in slices.seen("same")] == [3021]


def test_the_engine_is_full_by_others(slices: Slices) -> None:
    """Memory that a container beside Kubernetes has: the pod says so in its events, and starts later."""
    tree = Tree(str(TREE))
    tree.register("beside", os.getpid(), [(gpu, 12000 * MIB, 1, 0) for gpu in (0, 1)])
    slices.claim("later", "6Gi")
    slices.pod("later", {"main": ["later"]})
    slices.events_say("later", "MiB")
    tree.destroy("beside")
    slices.running("later", AGAIN_S)


# One claim of several containers or pods: one after the other, each request by itself, never at once.
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
