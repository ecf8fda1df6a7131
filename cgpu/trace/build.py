# SPDX-License-Identifier: Apache-2.0
"""A call's structures in memory, out of what a trace says of them."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cgpu.trace import names
from cgpu.trace.kinds import root_classes

if TYPE_CHECKING:
    from collections.abc import Callable

    from cgpu.trace.format import Event, Fields, Params

ENTRY = 8  # bytes of one index and its value, NV2080_CTRL_FB_INFO
MAX_SIZE = 1 << 14  # of a structure, as the driver has it (NV_MAX_IOCTL_XFER_SIZE)
# Where pointers lead to: first zeros, for those of which the trace says nothing.
PARAMETERS_AT, LIST_AT, MEMORY = 1 << 14, 2 << 14, 3 << 14

PARAMETERS = ("pAllocParms", "params")  # the pointers behind which a trace may know what lies

# What the driver chose when it was left to it: asked for by name, so that later calls find it.
CHOSEN = {
    "NV_ESC_RM_ALLOC": "hObjectNew",
    "NV_ESC_RM_ALLOC_OBJECT": "hObjectNew",
    "NV_ESC_RM_ALLOC_MEMORY": "params.hObjectNew",
    "NV_ESC_RM_DUP_OBJECT": "hObject",
}
# The parts of the heap's structure that allocate, each with a handle of its own.
HEAP = ("data.AllocSize", "data.AllocTiledPitchHeight", "data.AllocSizeRange")


@dataclass(frozen=True, slots=True)
class Built:
    """The structure of a call in a buffer of the largest size, and the memory that its pointers lead to."""

    top: bytearray
    size: int
    layout: names.Layout | None
    memory: bytearray


def address(data: bytearray) -> int:
    """Return where a buffer lies; it must outlive the use."""
    return ctypes.addressof((ctypes.c_char * len(data)).from_buffer(data))


def _fill(data: bytearray, layout: names.Layout, form: str, fields: Fields) -> None:
    kinds = names.kinds(form)
    for name, value in fields.items():
        if value is not None and kinds.get(name) not in ("pointer", "fd"):
            layout.put(data, name, int(value))


def _place(params: Params, version: str, memory: bytearray) -> bool:
    layout = names.layout(params.form, version)
    if layout is None:
        return False
    data = bytearray(layout.size)
    _fill(data, layout, params.form, params.given)
    at, room = layout.fields.get("fbInfoList", (0, 0))
    entries = b"".join(index.to_bytes(4, "little") + bytes(ENTRY - 4) for index in params.asked)
    if names.kinds(params.form).get("fbInfoList") == "pointer":
        memory[LIST_AT : LIST_AT + len(entries)] = entries
        layout.put(data, "fbInfoList", address(memory) + LIST_AT if params.given.get("fbInfoList") else 0)
    elif len(entries) <= room:
        data[at : at + len(entries)] = entries
    memory[PARAMETERS_AT : PARAMETERS_AT + len(data)] = data
    return True


def _keep_handle(event: Event, layout: names.Layout, top: bytearray) -> None:
    part = next((part for part in HEAP if f"{part}.hMemory" in event.given), "")
    name = CHOSEN.get(event.call, f"{part}.hMemory")
    if event.status != 0 or event.given.get(name) != 0 or not event.out.get(name):
        return
    layout.put(top, name, int(event.out[name] or 0))
    # A new client is named where other calls name theirs, not as an object (rs_server.c, serverAllocClient).
    if event.given.get("hClass") in root_classes() and not event.given.get("hRoot"):
        layout.put(top, "hRoot", int(event.out[name] or 0))
    if part:
        flags = f"{part}.flags"
        given = names.constant("NVOS32_ALLOC_FLAGS_MEMORY_HANDLE_PROVIDED")
        layout.put(top, flags, layout.get(top, flags) | given)


def build(event: Event, version: str, file_of: Callable[[int], int]) -> Built:
    """Return the structure of a driver call; file_of gives a recorded file's number in the replay.

    Without a form it is zeros in the call's size.
    """
    top, memory = bytearray(MAX_SIZE), bytearray(MEMORY)
    layout = names.layout(event.form, version) if event.form else None
    if layout is None or layout.size != event.size:
        return Built(top, min(event.size, MAX_SIZE), None, memory)
    _fill(top, layout, event.form, event.given)
    placed = event.params is not None and _place(event.params, version, memory)
    for name, kind in names.kinds(event.form).items():
        value = event.given.get(name)
        if kind == "fd" and value:
            layout.put(top, name, file_of(int(value)))
        elif kind == "pointer" and value:
            at = PARAMETERS_AT if placed and name in PARAMETERS else 0
            layout.put(top, name, address(memory) + at)
    _keep_handle(event, layout, top)
    return Built(top, layout.size, layout, memory)
