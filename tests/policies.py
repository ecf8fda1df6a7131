# SPDX-License-Identifier: Apache-2.0
"""The policies of the core that is built, as an engine publishes them, and those that have a trait."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from cgpu.client.policies import Policy, parse

LIBRARY = Path(__file__).resolve().parent.parent / "kmod" / "build" / "libcgpud.so"
BYTES = 4096


class CText(ctypes.Structure):
    """struct core_text."""

    _fields_ = (
        ("text", ctypes.c_char_p),
        ("bytes", ctypes.c_size_t),
        ("length", ctypes.c_size_t),
        ("full", ctypes.c_int),
    )


@cache
def text() -> str:
    """Return the entry `policies`."""
    buffer = ctypes.create_string_buffer(BYTES)
    out = CText(ctypes.cast(buffer, ctypes.c_char_p), BYTES - 1)
    assert ctypes.CDLL(str(LIBRARY)).core_policies_text(ctypes.byref(out)) == 0
    assert not out.full
    return buffer.value.decode()


@cache
def policies() -> dict[int, Policy]:
    """Return the policies by their numbers."""
    return parse(text())


FAIR, PREEMPTIVE, WEIGHT, FIXED, SOFT, NATIVE = range(6)
DIVIDED = tuple(number for number, one in policies().items() if not one.undivided)
BY_NUMBER = tuple(number for number, one in policies().items() if one.by_number or one.undivided)
KEEPS_IDLE = tuple(number for number, one in policies().items() if one.keeps_idle)
KEEPS_FREE = tuple(number for number, one in policies().items() if one.keeps_free)
WORKING = tuple(number for number in DIVIDED if number not in KEEPS_IDLE)
