# SPDX-License-Identifier: Apache-2.0
"""The suite keeps what one card can show where there is one."""

from __future__ import annotations

import json

from tests.conformance.select import with_one_card
from tests.conformance.suite import suite

CASES = suite("cgpud", "195")
ONE = {one.name: one for one in with_one_card(CASES)}


def test_what_is_left_names_no_second_card() -> None:
    """No remaining step looks at a second card or asks for one, but to be refused for its form."""
    for one in ONE.values():
        text = json.dumps([step for step in one.steps if step.get("expect") != {"errno": "EINVAL"}])
        assert '"node": "1' not in text, one.name
        assert "gpu=1" not in text, one.name


def test_most_is_left() -> None:
    """Cases that do not name a second card are all there, as they were."""
    kept = [one for one in CASES if ONE.get(one.name) == one]
    assert len(kept) > 50
    shorter = {one.name for one in CASES if one.name in ONE and one not in kept}
    assert shorter == {"gpu", "facts", "reserved-grammar"}
