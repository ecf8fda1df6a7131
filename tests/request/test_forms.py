# SPDX-License-Identifier: Apache-2.0
"""The forms of values, said once more as patterns."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.request import validate
from cgpu.request.names import NAMES
from cgpu.slice import BESIDE_MEMORY

SIZE = r"[0-9]{1,15}([.][0-9]{1,9})?(%|[bB]|[kKmMgGtT][iI]?[bB]?)?"
DEVICE = r"((0|[1-9][0-9]{0,3})|[gG][pP][uU]-[0-9A-Za-z-]+)"
FORMS = {
    "mem": (1024, f"{SIZE}(,{SIZE})*"),
    "container": (319, r"0(,0)*|[1-9][0-9]{0,8}(,[1-9][0-9]{0,8})*"),
    "dev": (9, r"[1-9][0-9]{0,8}"),
    "devices": (2048, f"all|{DEVICE}(,{DEVICE})*"),
    "priority": (6, r"0|1|high|normal"),
    "disable": (5, r"[Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]|0|1"),
    **{one.asked: (one.digits, r"0|[1-9][0-9]*") for one in BESIDE_MEMORY if one.words is None},
}

near = st.text(alphabet="0123456789,.%-GiMkbBPUalgpuTrueFsEhn\n\0 \u0663", max_size=12)
matching = st.one_of([st.from_regex(pattern, fullmatch=True) for _, pattern in FORMS.values()])
values = st.one_of(
    near, matching, st.text(max_size=400), st.integers(), st.none(), st.lists(st.text(max_size=2))
)


def fits(key: str, value: object) -> bool:
    longest, pattern = FORMS[key]
    if not isinstance(value, str):
        return False
    return not value or (len(value) <= longest and re.fullmatch(pattern, value) is not None)


def test_each_name_has_a_form() -> None:
    """There is a pattern for all that can be asked."""
    assert set(FORMS) == set(NAMES)


@pytest.mark.parametrize("key", FORMS)
@given(value=values)
def test_always_agree(key: str, value: object) -> None:
    """The checks take and refuse what the patterns do."""
    assert (validate.expected(key, value) is None) == fits(key, value)


@pytest.mark.parametrize("key", FORMS)
def test_lengths(key: str) -> None:
    """The longest text is taken, and none that is longer."""
    longest, _ = FORMS[key]
    for digits in range(1, longest + 2):
        for text in ("1" * digits, ("1," * digits)[:digits].rstrip(","), "GPU-" + "a" * max(digits - 4, 1)):
            assert (validate.expected(key, text) is None) == fits(key, text), text
