# SPDX-License-Identifier: Apache-2.0
"""What holds for the table of classes and for that of controls alike."""

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
    """None goes on unjudged whose parameters name a client of RM that the driver reads."""
    for number, fact in FACTS[kind][kind].items():
        if any("client" in field.lower() for field in fact.get("inside", [])):
            assert ROWS[kind][number]["verdict"] != "pass" or fact["name"] in UNREAD, number
