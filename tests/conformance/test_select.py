# SPDX-License-Identifier: Apache-2.0
"""What is left of the suite where there is one card."""

from __future__ import annotations

import dataclasses
import json

from tests.conformance.select import for_one_card, is_of_second_card, with_one_card
from tests.conformance.steps import MIB, case, create, fails, names, race, read, sliced, start, write
from tests.conformance.suite import suite

CASES = suite("cgpud", "195")
ONE = {one.name: one for one in with_one_card(CASES)}


def test_what_is_left_names_no_second_card() -> None:
    """Nothing that is left looks at a second card or asks for one, but to be refused for its form."""
    for one in ONE.values():
        text = json.dumps([step for step in one.steps if step.get("expect") != {"errno": "EINVAL"}])
        assert '"node": "1' not in text, one.name
        assert "gpu=1" not in text, one.name


def test_most_is_left() -> None:
    """Cases that do not name a second card are all there, as they were."""
    kept = [one for one in CASES if ONE.get(one.name) == one]
    assert len(kept) == 63
    shorter = {one.name for one in CASES if one.name in ONE and one not in kept}
    assert shorter == {"gpu", "facts", "reserved-grammar"}


def test_looks_are_left_out() -> None:
    """A step that looks at the second card goes; one that needs it takes its case with it."""
    looks = case("looks", "It is so.", read("0/policy", "1\n"), read("1/policy", "1\n"))
    assert for_one_card(looks) == dataclasses.replace(looks, steps=looks.steps[:1])
    assert for_one_card(case("cards", "It is so.", names("", ["0", "1"], directories=True))) is None
    assert for_one_card(case("second", "It is so.", read("1/policy", "1\n"))) is None
    needs = [
        [start("p"), create(7, "p", f"gpu=0:{MIB} gpu=1:{MIB}")],
        [start("p"), create(7, "p", f"gpu=0:{MIB} native=1")],
        [write("inst_ctl", "1abcdefabcdef\n")],
        [write("1/policy", "2")],
        sliced("p", 1, f"gpu=0:{MIB}", "gpu=1", "info"),
        [race(2, [[read("0/policy")], [read("1/policy")]], "ok")],
    ]
    for steps in needs:
        assert for_one_card(case("needs", "It is so.", read("0/policy"), steps)) is None, steps


def test_what_is_refused_for_its_form_stays() -> None:
    """A line that no engine takes, whatever cards there are, is no need of a second card."""
    malformed = write("inst_ctl", f"create id=a pid={{pid:p}} gpu=1:{MIB}:99", fails("EINVAL"))
    assert not is_of_second_card({**malformed, "expect": {"errno": "EINVAL"}})
    assert is_of_second_card({**malformed, "expect": fails("ENOENT")})
