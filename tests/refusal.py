# SPDX-License-Identifier: Apache-2.0
"""Refusals as tests expect them: one line that names the thing, its value and what is expected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cgpu.errors import CgpuError


def has_parts(line: str, *parts: str) -> bool:
    """Say whether a message is one line that begins with the first part and has the others in this order."""
    at = len(parts[0])
    if not line.startswith(parts[0]) or not line.isascii() or not line.isprintable():
        return False
    for part in parts[1:]:
        found = line.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return True


@contextmanager
def refused(*parts: str) -> Iterator[None]:
    """Expect a refusal whose one line begins with the first part, and has the others in their order."""
    with pytest.raises(CgpuError) as caught:
        yield
    assert has_parts(str(caught.value), *parts), f"{caught.value} has not {parts}"


@contextmanager
def refused_word_for_word(line: str) -> Iterator[None]:
    """Expect a refusal with exactly this line."""
    with pytest.raises(CgpuError) as caught:
        yield
    assert str(caught.value) == line
