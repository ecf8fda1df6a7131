# SPDX-License-Identifier: Apache-2.0
"""The slice and the card on the command line of a replay."""

from __future__ import annotations

import re

from cgpu.errors import CgpuError, show
from cgpu.kmod.daemon.simulate import MODEL, check_model
from cgpu.sizes import ACCEPTED, size_in_bytes

CARD = re.compile(MODEL, re.ASCII)
MOST = 1 << 50


def slice_of(text: str) -> int:
    """Return bytes. Raises CgpuError."""
    size = size_in_bytes(text)
    if size is None or not 0 < size <= MOST:
        raise CgpuError(f"--mem {show(text)}: expected {ACCEPTED}, up to 1024T")
    return size


def card_of(text: str) -> str:
    """Return the card, its model as cgpu-sim lists it. Raises CgpuError."""
    found = CARD.fullmatch(text)
    if not found:
        raise CgpuError(f"--model {show(text)}: expected MODEL[=MIB], such as T4 or T4=8192")
    return check_model("--model", found[1]) + (found[2] or "")
