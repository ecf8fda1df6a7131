# SPDX-License-Identifier: Apache-2.0
"""What the tests say of a refusal: one line with the thing named, its value and what is expected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cgpu.errors import CgpuError


@contextmanager
def refused(line: str) -> Iterator[None]:
    """Expect a refusal with exactly this line."""
    with pytest.raises(CgpuError) as caught:
        yield
    assert str(caught.value) == line
