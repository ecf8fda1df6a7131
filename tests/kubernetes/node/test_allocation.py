# SPDX-License-Identifier: Apache-2.0
"""Reading of a claim's allocation."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cgpu.errors import CgpuError
from cgpu.kubernetes.node.allocation import allocated
from cgpu.sizes import MIB
from cgpu.slice import Slice
from tests.kubernetes.node.objects import NODE, SECOND, T4, claim, opaque, result, share_id

CARDS = (T4, SECOND)


def test_one_share() -> None:
    """6 GiB of a T4 of 15 are 6043 MiB of the card."""
    (share,) = allocated(claim([result(0)]), NODE, CARDS, "card")
    assert (share.share, share.request, share.gpu) == (share_id(0), "r0", T4.uuid)
    assert share.slice == Slice(6043 * MIB).values()


def test_several_shares_and_other_drivers() -> None:
    """Each request has its share; another driver's devices are none of ours."""
    results = [
        result(0),
        result(1, "1Gi", device=SECOND.device),
        result(2, driver="nic.example.com", pool="x"),
    ]
    found = allocated(claim(results), NODE, CARDS, "exact")
    assert [(one.gpu, one.slice[0] // MIB) for one in found] == [(T4.uuid, 6144), (SECOND.uuid, 1024)]


def test_the_class_is_above_the_claim() -> None:
    """The administrator's class counts, whatever the claim says; config is not in any order."""
    config = [
        opaque("FromClass", highPriority=False, policy=1),
        opaque("FromClaim", ["r1"], highPriority=True, policy=2),
        {**opaque("FromClaim"), "opaque": {"driver": "nic.example.com", "parameters": {"policy": 9}}},
        opaque("", highPriority=True),
    ]
    for listed in (config, config[::-1]):
        found = allocated(claim([result(0), result(1)], listed), NODE, CARDS, "card", claim_priority=True)
        assert [one.slice[2] for one in found] == [0, 0]


def test_the_weight_is_what_was_consumed() -> None:
    """A class bounds it; neither class nor claim gives more GPU time than the scheduler has counted."""
    heavy = result(0, consumedCapacity={"memory": "2Mi", "weight": "5"})
    for said, weight in ((3, 3), (19, 5)):
        (share,) = allocated(claim([heavy], [opaque("FromClass", weight=said)]), NODE, CARDS, "card")
        assert share.slice[1] == weight
    for source in ("FromClaim", ""):
        config = [opaque("FromClass", weight=1), opaque(source, ["r0"], weight=19)]
        with pytest.raises(CgpuError, match=r"weight: expected .*capacity\.requests\.weight"):
            allocated(claim([result(0)], config), NODE, CARDS, "card")


def test_high_priority() -> None:
    """A class gives it; a claim has it of itself where the node allows that, and else is refused."""
    (share,) = allocated(claim([result(0)], [opaque("FromClass", highPriority=True)]), NODE, CARDS, "card")
    assert share.slice[2] == 1
    own = claim([result(0)], [opaque("FromClaim", highPriority=True)])
    with pytest.raises(CgpuError, match=r"request r0: highPriority: .*allow_claim_priority is false"):
        allocated(own, NODE, CARDS, "card")
    (share,) = allocated(own, NODE, CARDS, "card", claim_priority=True)
    assert share.slice[2] == 1


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"shareID": None}, "DRAConsumableCapacity is off"),
        ({"shareID": "../../etc/passwd"}, "expected a UUID"),
        ({"pool": "node-2"}, "which is not this node"),
        ({"device": "gpu-none"}, "is not on this node"),
        ({"adminAccess": True}, "adminAccess: expected a request without it"),
        ({"consumedCapacity": None}, "does not say how much memory"),
        ({"consumedCapacity": {"memory": "1Ki", "weight": "1"}}, "expected 1Mi or more"),
        ({"consumedCapacity": {"memory": "six", "weight": "1"}}, "memory six: expected an amount"),
        ({"consumedCapacity": {"memory": "1e999999999", "weight": "1"}}, "expected an amount"),
        ({"consumedCapacity": {"memory": "1Gi"}}, "does not say how much weight"),
        ({"consumedCapacity": {"memory": "1Gi", "weight": "500m"}}, "weight 0.500: expected 1 or more"),
    ],
)
def test_refused(fields: dict[str, Any], said: str) -> None:
    """A device that cannot be given is refused with one line, and nothing of the claim is given."""
    with pytest.raises(CgpuError, match=said):
        allocated(claim([result(1), result(0, **fields)]), NODE, CARDS, "card")


def test_policy_of_the_card() -> None:
    """A claim, or an alternative of it, that wants a policy does not start under another one."""
    config = [opaque("FromClaim", ["r0"], policy=2)]
    for request in ("r0", "r0/small"):
        with pytest.raises(CgpuError, match="wants policy 2, and GPU 0 has policy 1"):
            allocated(claim([result(0, request=request)], config), NODE, CARDS, "card")
    assert allocated(claim([result(0)], config), NODE, [replace(T4, policy=2)], "card")
