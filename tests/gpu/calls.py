# SPDX-License-Identifier: Apache-2.0
"""What a recorded trace says of a program: how it asks for memory, and the handles of its channels."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.gpu.node import TABLES

Event = dict[str, Any]
LEGACY = 0x8000  # controls that the driver hands to the card's firmware unread: rmapi_deprecated.h
BINARY = "NV2081_BINAPI"


@cache
def tables() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(TABLES.read_text())
    return found


@cache
def class_names() -> dict[int, str]:
    """Return the first name of each class."""
    names: dict[int, str] = {}
    for name, entry in tables()["classes"].items():
        names.setdefault(entry["id"], name)
    return names


def class_name(number: int) -> str:
    """Return a class by name, where it has one."""
    return class_names().get(number, f"{number:#x}")


def control_name(number: int) -> str:
    """Return a control by name, where the tables have it."""
    named: dict[int, str] = {entry["cmd"]: name for name, entry in tables()["controls"].items()}
    return named.get(number, f"{number:#x}")


def read(path: Path) -> list[Event]:
    """Return the events of a trace, also of one that is still written."""
    lines = path.read_text().split("\n")[1:]
    return [json.loads(line) for line in lines if line.endswith("}")]


def after(event: Event, key: str) -> Any:
    """Return a field as the call left it."""
    return event.get("out", {}).get(key, event.get("in", {}).get(key))


@dataclass(frozen=True, slots=True)
class Made:
    """An object that a program has made."""

    client: int
    parent: int
    handle: int
    class_id: int
    process: int
    fd: int
    size: int  # 0 where it is no memory


def objects(events: list[Event]) -> list[Made]:
    """Return what was made by RM_ALLOC, in order, freed or not."""
    found = []
    for event in events:
        if event["call"] != "NV_ESC_RM_ALLOC" or event.get("status") != 0:
            continue
        client, handle = after(event, "hRoot"), after(event, "hObjectNew")
        params = event.get("params", {})
        size = int(after(params, "size") or 0)
        number = event["in"]["hClass"]
        place = (event["in"]["hObjectParent"], handle, number, event["pid"], event["fd"], size)
        found.append(Made(client or handle, *place))
    return found


def constant(name: str) -> int:
    """Return one of the driver's numbers; of a range of bits, the lowest."""
    return int(tables()["constants"][name]["value"].rpartition(":")[2], 0)


def heap_memory(event: Event) -> tuple[int, int, int] | None:
    """Return client, handle and bytes of card memory that VID_HEAP_CONTROL gave; 0 bytes: taken back."""
    if event["call"] != "NV_ESC_RM_VID_HEAP_CONTROL" or event.get("status") != 0:
        return None
    asked = event["in"]
    if asked["function"] == constant("NVOS32_FUNCTION_FREE"):
        return asked["hRoot"], asked["data.Free.hMemory"], 0
    location = asked.get("data.AllocSize.attr", 0) >> constant("NVOS32_ATTR_LOCATION") & 3
    if asked["function"] != constant("NVOS32_FUNCTION_ALLOC_SIZE"):
        return None
    if location != constant("NVOS32_ATTR_LOCATION_VIDMEM"):
        return None
    return asked["hRoot"], after(event, "data.AllocSize.hMemory"), after(event, "data.AllocSize.size")


def video_bytes(events: list[Event]) -> int:
    """Return the bytes of the card that are held by objects of the program's own at the end of the trace."""
    held = {
        (made.client, made.handle): made.size
        for made in objects(events)
        if class_name(made.class_id) == "NV01_MEMORY_LOCAL_USER"
    }
    for event in events:
        given = heap_memory(event)
        if given is not None:
            held[given[:2]] = given[2]
        elif event["call"] == "NV_ESC_RM_FREE" and event.get("status") == 0:
            held.pop((event["in"]["hRoot"], event["in"]["hObjectOld"]), None)
    return sum(held.values())


@dataclass(frozen=True, slots=True)
class Client:
    """A client with a subdevice, and the descriptor that it is used through."""

    fd: int
    handle: int
    device: int
    subdevice: int

    def dup_fd(self, pid: int) -> str:
        """Return the probe's word that goes on with the client of this process."""
        return f"dup-fd={pid}:{self.fd}:{self.handle}:{self.device}:{self.subdevice}"


def clients(events: list[Event]) -> list[Client]:
    """Find the clients that a program has asked a card by."""
    found = [one for one in objects(events) if class_name(one.class_id) == "NV20_SUBDEVICE_0"]
    return [Client(one.fd, one.client, one.parent, one.handle) for one in found]


@dataclass(frozen=True, slots=True)
class Channel:
    """A compute channel and its group."""

    client: Client
    group: int
    handle: int


def channel(events: list[Event]) -> Channel | None:
    """Find the first channel that a compute object was made on."""
    made = objects(events)
    by_handle = {(one.client, one.handle): one for one in made}
    by_client = {one.handle: one for one in clients(events)}
    for one in made:
        above = by_handle.get((one.client, one.parent))
        if "COMPUTE" in class_name(one.class_id) and above is not None and one.client in by_client:
            return Channel(by_client[one.client], above.parent, above.handle)
    return None


def opaque_controls(events: list[Event]) -> dict[str, int]:
    """Count the controls whose parameters the driver's sources do not tell, by number and class."""
    classes = {(one.client, one.handle): class_name(one.class_id) for one in objects(events)}
    found: Counter[str] = Counter()
    for event in events:
        if event["call"] != "NV_ESC_RM_CONTROL":
            continue
        asked = event["in"]
        where = classes.get((asked["hClient"], asked["hObject"]), "?")
        if asked["cmd"] & LEGACY or where == BINARY:
            found[f"{asked['cmd']:#x} on {where}, {asked['paramsSize']} bytes"] += 1
    return dict(found)


def summary(events: list[Event]) -> dict[str, Any]:
    """Count calls by name, classes, controls and mappings of UVM's node."""
    made = Counter(class_name(one.class_id) for one in objects(events))
    asked = Counter(control_name(e["in"]["cmd"]) for e in events if e["call"] == "NV_ESC_RM_CONTROL")
    uvm = {e["file"] for e in events if e["call"] == "open" and e.get("node") == "nvidia-uvm"}
    mapped = Counter(e["length"] for e in events if e["call"] == "mmap" and e.get("file") in uvm)
    return {
        "calls": dict(Counter(event["call"] for event in events)),
        "classes": dict(made),
        "controls": dict(asked),
        "uvm_mappings_by_length": {str(length): count for length, count in mapped.items()},
        "video_bytes_held": video_bytes(events),
        "opaque_controls": opaque_controls(events),
    }


def difference(one: dict[str, Any], base: dict[str, Any]) -> dict[str, Any]:
    """Return what the counts of a summary have above those of another."""
    found = {}
    for key in ("calls", "classes", "controls", "uvm_mappings_by_length"):
        more = Counter(one[key])
        more.subtract(base[key])
        found[key] = {name: count for name, count in more.items() if count > 0}
    return found
