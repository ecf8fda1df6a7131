# SPDX-License-Identifier: Apache-2.0
"""Rules that hold for the tables of classes and of controls alike."""

from __future__ import annotations

import pytest

from cgpu.kmod.abi import judge
from tests.core.call.verdicts import table

FACTS = {"classes": table("class_facts.json"), "controls": table("control_facts.json")}
ROWS = {kind: table(f"{kind}.json")[kind] for kind in FACTS}
# The driver reads none of the clients that its parameters name.
UNREAD = {"NV_CONFIDENTIAL_COMPUTE"}
kinds = pytest.mark.parametrize("kind", list(FACTS))


@kinds
def test_every_known_one_has_a_verdict(kind: str) -> None:
    """No class or control of the newest header set, or of one before it, is without a verdict."""
    assert judge.missing(kind, FACTS[kind][kind], ROWS[kind]) == {}
    assert FACTS[kind]["last"] == "595.45.04"


@kinds
def test_parameters_that_name_clients_are_judged(kind: str) -> None:
    """A call whose parameters name a client of RM, which the driver reads, never goes on unjudged."""
    for number, fact in FACTS[kind][kind].items():
        if any("client" in field.lower() for field in fact.get("inside", [])):
            assert ROWS[kind][number]["verdict"] != "pass" or fact["name"] in UNREAD, number
