# SPDX-License-Identifier: Apache-2.0
"""Grants as tests write them: attributes that a test does not name have their defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cgpu.slice import BESIDE_MEMORY, Slice

if TYPE_CHECKING:
    from cgpu.request.grants import Grant

# What stands behind the memory in a line of `reserved`.
OTHERS = " ".join(str(one.default) for one in BESIDE_MEMORY)


def grant(gpu: int, *values: int) -> Grant:
    """Return a grant of the first attributes, in the order of cgpu/slice.py."""
    return (gpu, *Slice(*values).values())
