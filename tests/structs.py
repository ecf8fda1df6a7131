# SPDX-License-Identifier: Apache-2.0
"""Structures of C for ctypes, declared as C does: a type, and the names of what has it."""

from __future__ import annotations

import ctypes
from typing import Any, Final

TYPES: Final[dict[str, Any]] = {
    "u32": ctypes.c_uint32,
    "u64": ctypes.c_uint64,
    "s32": ctypes.c_int32,
    "s64": ctypes.c_int64,
    "int": ctypes.c_int,
    "bool": ctypes.c_bool,
    "pointer": ctypes.c_void_p,
}


def members(*declarations: str) -> tuple[tuple[str, Any], ...]:
    """Return what a structure's _fields_ have for declarations such as "u32 weight highprio"."""
    words = [one.split() for one in declarations]
    return tuple((name, TYPES[kind]) for kind, *names in words for name in names)
