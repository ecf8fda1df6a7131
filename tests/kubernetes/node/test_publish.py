# SPDX-License-Identifier: Apache-2.0
"""The ResourceSlice of a node, and its words on the health of cards."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from cgpu.client.tree import Tree
from cgpu.kubernetes.node.api import Api
from cgpu.kubernetes.node.devices import in_order, turns
from cgpu.kubernetes.node.health import Health, observe
from cgpu.kubernetes.node.publish import Publisher
from tests.kubernetes.node.fakes import FakeApi, FakeEngine
from tests.kubernetes.node.objects import NODE, SECOND, T4

WELL = (Health(T4, "well"), Health(SECOND, "well"))


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()


@pytest.fixture
def publisher(api: FakeApi) -> Publisher:
    return Publisher(cast("Api", api), NODE, "card", "cgpud", lambda _: None)


def devices(api: FakeApi) -> list[dict[str, Any]]:
    (found,) = api.slices.values()
    return [one.to_dict() for one in found.spec.devices or []]


def test_a_card_is_a_device_with_parts(api: FakeApi, publisher: Publisher) -> None:
    """Memory and weight are capacities, of which claims take parts; their number is bounded by the weight."""
    publisher.publish(WELL)
    first, second = devices(api)
    assert (first["name"], second["name"]) == (T4.device, SECOND.device)
    assert first["allowMultipleAllocations"] is True
    assert first["capacity"] == {
        "memory": {
            "value": "15Gi",
            "requestPolicy": {"default": "15Gi", "validRange": {"min": "1Mi", "step": "1Mi"}},
        },
        "weight": {"value": "20", "requestPolicy": {"default": "1", "validRange": {"min": "1", "step": "1"}}},
    }
    (written,) = api.slices.values()
    assert written.metadata is not None
    assert [one.uid for one in written.metadata.ownerReferences or []] == ["node-uid"]
    assert written.spec.pool.name == written.spec.nodeName == NODE


def test_written_when_it_changes(api: FakeApi, publisher: Publisher) -> None:
    """The same is not written again; a change is, as a new generation; a removed slice comes back."""
    publisher.publish(WELL)
    publisher.publish(WELL)
    publisher.forget()
    publisher.publish(WELL)
    assert api.writes == 1
    publisher.publish(WELL[:1])
    assert [one.spec.pool.generation for one in api.slices.values()] == [2]
    api.slices.clear()
    publisher.forget()
    publisher.publish(WELL[:1])
    assert (api.writes, len(api.slices)) == (3, 1)


@pytest.mark.parametrize(
    ("value", "shared"), [("cgpu", True), ("share", True), ("default", False), ("x", False)]
)
def test_label_of_the_node(api: FakeApi, value: str, shared: bool) -> None:
    """Alibaba's label decides whether the node's cards are shared; a change takes them away, said once."""
    said: list[str] = []
    publisher = Publisher(cast("Api", api), NODE, "card", "cgpud", said.append)
    publisher.publish(WELL)
    api.labels = {"ack.node.gpu.schedule": value}
    for _ in range(3):
        publisher.forget()
        publisher.publish(WELL)
    assert bool(api.slices) is shared
    assert len(said) == int(not shared)


def test_order_of_devices() -> None:
    """The scheduler takes the first that fits: the fullest stays in front, or the emptiest comes there."""
    used = [replace(T4, reserved=1 << 30), SECOND]
    assert in_order(used, "binpack") == used
    assert in_order(used, "spread") == [SECOND, used[0]]


def test_turns_of_cards(api: FakeApi, publisher: Publisher) -> None:
    """By them pods that come at once choose different cards; their order by use changes no turn."""
    api.labels = {"ack.node.gpu.placement": "spread"}
    publisher.publish([replace(WELL[0], card=replace(T4, reserved=1 << 30)), WELL[1]])
    names = ("placement", "turn", "turns")
    found = [[one["attributes"][name] for name in names] for one in devices(api)]
    spread = {"string": "spread"}
    assert found == [[spread, {"int": 1}, {"int": 2}], [spread, {"int": 0}, {"int": 2}]]
    (written,) = api.slices.values()
    assert written.metadata is not None
    assert written.metadata.labels == {"opencgpu.io/placement": "spread"}
    assert turns([T4], "binpack") == {T4.uuid: {"placement": {"string": "binpack"}}}


def test_health(api: FakeApi, publisher: Publisher) -> None:
    """A card that is not well takes no new pods; each change is an event of the node, once."""
    engine = FakeEngine([T4, SECOND])
    tree = cast("Tree", engine)
    health = observe(tree, ())
    assert health == WELL
    publisher.publish(health)
    engine.down = True
    health = observe(tree, health)
    publisher.publish(health)
    publisher.publish(health)
    assert [one["taints"] for one in devices(api)] == 2 * [
        [{"key": "gpu.opencgpu.io/engine-down", "effect": "NoSchedule"}]
    ]
    engine.down, engine.cards = False, [T4, replace(SECOND, mig=True)]
    health = observe(tree, health)
    publisher.publish(health)
    assert ["taints" in one for one in devices(api)] == [False, True]
    reasons = [reason for reason, _ in api.events]
    assert reasons == 2 * ["GPUUnhealthy"] + ["GPUHealthy", "GPUUnhealthy"]
    assert "MIG mode: cgpu doctor" in api.events[-1][1]


def test_a_card_in_mig_mode_is_no_device() -> None:
    """Its memory is in its instances, so no part of it can be given."""
    assert observe(cast("Tree", FakeEngine([replace(T4, mig=True)])), ()) == ()
