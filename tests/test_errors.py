# SPDX-License-Identifier: Apache-2.0
"""Messages, and values in them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cgpu.errors import CgpuError, show

values = st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.booleans(), st.lists(st.integers()))


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
