# SPDX-License-Identifier: Apache-2.0
"""Numbers and layouts of the driver's interface."""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass
from functools import cache
from typing import Any

from cgpu.kmod.abi.generate import DATA, layout_at

KIB = 1 << 10
MIB = 1 << 20
ALLOC, FREE, CONTROL, DUP, HEAP = 0x2B, 0x29, 0x2A, 0x34, 0x4A
SHARE = 0x35
REGISTER_FD, XFER = 201, 211
ROOT, DEVICE, SUBDEVICE, VIDEO, HOST = 0x41, 0x80, 0x2080, 0x40, 0x3E
FB_INFO_V2 = 0x20801303
ID_INFO = 0x205
HEAP_SIZE, HEAP_FREE = 9, 0x16


class Status:
    """Answers of the driver."""

    OK = 0
    INVALID_ARGUMENT = 0x1F


@dataclass(frozen=True)
class Layout:
    """Size of a structure and where its fields lie, in bytes."""

    size: int
    fields: dict[str, tuple[int, int]]

    def pack(self, **values: int) -> bytearray:
        """Return the structure with these fields; a dot in a name is written as two underscores."""
        data = bytearray(self.size)
        for name, value in values.items():
            self.put(data, name.replace("__", "."), value)
        return data

    def put(self, data: bytearray, name: str, value: int) -> None:
        """Set one field; one that this version lacks is left out."""
        if name in self.fields:
            at, size = self.fields[name]
            data[at : at + size] = value.to_bytes(size, "little")

    def get(self, data: bytearray, name: str) -> int:
        at, size = self.fields[name]
        return int.from_bytes(data[at : at + size], "little")


@cache
def facts() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(DATA.read_text())
    return loaded


@cache
def layout(name: str, version: str) -> Layout:
    """Return a structure's layout in a driver version."""
    entry = layout_at(facts()["structs"][name], version)
    if entry is None:
        raise KeyError(f"{name} in {version}")
    return Layout(entry["size"], {k: (v[0], v[1]) for k, v in entry["fields"].items()})


def command(nr: int, size: int) -> int:
    return 3 << 30 | size << 16 | 0x46 << 8 | nr


def address(data: bytearray) -> int:
    """Return where a buffer lies in memory; the buffer must outlive the use."""
    return ctypes.addressof((ctypes.c_char * len(data)).from_buffer(data))
