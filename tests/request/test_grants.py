# SPDX-License-Identifier: Apache-2.0
"""Grants as text, and values in messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cgpu.errors import CgpuError, show
from cgpu.request.grants import format_grants, parse_grant

values = st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.booleans(), st.lists(st.integers()))
grants = st.tuples(st.integers(0, 9999), st.integers(1, 1 << 50), st.integers(0, 999), st.integers(0, 1))


@given(st.lists(grants, max_size=4))
def test_grants_come_back(many: list[tuple[int, int, int, int]]) -> None:
    """A grant written as text is read back the same."""
    assert [parse_grant(text) for text in format_grants(many)] == many


@given(st.text(alphabet="0123456789:- \n\u0663", max_size=20))
def test_any_grant(text: str) -> None:
    """A text that is read as a grant is written back as it was."""
    try:
        grant = parse_grant(text)
    except CgpuError:
        return
    assert format_grants([grant]) == [text]


@given(values)
def test_values_are_shown_on_one_line(value: object) -> None:
    """A shown value is short, printable and ASCII."""
    shown = show(value)
    assert len(shown) <= 67
    assert shown.isascii()
    assert shown.isprintable()


@given(st.text())
def test_messages_are_one_line(text: str) -> None:
    """An error's message is one printable ASCII line, whatever its text."""
    message = str(CgpuError(text))
    assert message.isascii()
    assert message.isprintable()
