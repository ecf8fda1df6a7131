# SPDX-License-Identifier: Apache-2.0
"""Driver calls of simulated processes, in the layouts of one driver version."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tests.layouts.stage import FINE, NOTHING, STATUS, CCall, Library, StageCall
from tests.sim.abi import (
    ALLOC,
    CONTROL,
    DEVICE,
    DUP,
    FB_INFO_V2,
    FREE,
    HEAP,
    HEAP_FREE,
    HEAP_SIZE,
    ROOT,
    SHARE,
    SUBDEVICE,
    VIDEO,
    XFER,
    Layout,
    address,
    facts,
    layout,
)

Between = Callable[[], None]
COMPOSE: Final = 4  # RS_SHARE_ACTION_FLAG_COMPOSE
EXPORT, IMPORT, EXPORTS, IMPORTS = 0x3D05, 0x3D06, 0x3D0B, 0x3D0C
BUFFER_BYTES: Final = 16384
TOP_AT, PARAMS_AT = 64, 1024
RM_OBJECT: Final = 1  # NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TYPE_RM


def bits(name: str, value: int) -> int:
    """Return a value at the place of a bit field."""
    low = int(facts()["constants"][name]["value"].split(":")[1])
    return value << low


@dataclass
class How:
    """Disturbances of a call: a fault, a transfer wrapper, and events before the engine learns its end."""

    fault: int = FINE
    status: int = 0
    wrapped: bool = False
    wide: bool = True
    between: Between | None = None


@dataclass
class Done:
    """Result of a call."""

    verdict: int
    result: int
    status: int
    top: bytearray
    params: bytearray


@dataclass(eq=False)
class Process:
    """One that may call; number is its tgid."""

    container: int
    number: int
    files: list[int] = field(default_factory=list)
    alive: bool = True


@dataclass
class Object:
    """Object behind a handle; memory may lie on another card than its parent."""

    kind: str
    gpu: int
    parent: int


@dataclass(eq=False)
class Client:
    """An RM client, and the objects in it that calls have made."""

    process: Process
    file: int
    handle: int
    objects: dict[int, Object] = field(default_factory=dict)

    @property
    def who(self) -> tuple[Process, int]:
        """The process that calls, and the file it calls on."""
        return self.process, self.file

    def of(self, *kinds: str) -> list[int]:
        """Return the handles of objects of these kinds."""
        return [handle for handle, made in self.objects.items() if made.kind in kinds]

    def drop(self, handle: int) -> None:
        """An object has gone, with all below it."""
        gone = {handle}
        while more := {h for h, made in self.objects.items() if made.parent in gone} - gone:
            gone |= more
        for one in gone & set(self.objects):
            del self.objects[one]


class Driver:
    """The calls of one driver version on one stage."""

    def __init__(self, library: Library, version: str, stage: int) -> None:
        """stage: the result of stage_new()."""
        self.c, self.version, self.stage = library.c, version, stage

    def form(self, name: str) -> Layout:
        return layout(name, self.version)

    def call(
        self,
        who: tuple[Process, int],
        nr: int,
        names: tuple[str, str],
        top: bytearray,
        params: bytearray | None,
        how: How,
    ) -> Done:
        """Make a call on a file. names: the structure, and its pointer to the parameters, if it has one."""
        form = self.form(names[0])
        buffer = bytearray(BUFFER_BYTES)
        base = address(buffer)
        if params is not None:
            form.put(top, names[1], base + PARAMS_AT)
            buffer[PARAMS_AT : PARAMS_AT + len(params)] = params
        buffer[TOP_AT : TOP_AT + len(top)] = top
        call = CCall(who[1], who[0].number, nr, len(top), base + TOP_AT, base, BUFFER_BYTES)
        step = StageCall(call, who[0].container)
        if how.wrapped:
            wrapper = self.form("nv_ioctl_xfer_t").pack(cmd=nr, size=len(top), ptr=base + TOP_AT)
            buffer[: len(wrapper)] = wrapper
            step.nr, step.bytes, step.top = XFER, len(wrapper), base
        step.fault, step.status = how.fault, how.status if how.fault == STATUS else 0
        if how.between:
            step.between = NOTHING(how.between)
        self.c.stage_call(self.stage, ctypes.byref(step))
        answer = buffer[TOP_AT : TOP_AT + len(top)]
        nested = buffer[PARAMS_AT : PARAMS_AT + (len(params) if params else 0)]
        return Done(step.verdict, step.result, form.get(answer, "status"), answer, nested)

    def alloc(
        self, client: Client, parent: int, handle: int, class_id: int, params: bytearray | None, how: How
    ) -> tuple[Done, int]:
        """RM_ALLOC in either form: its result, and the new object's handle."""
        name = "NVOS64_PARAMETERS" if how.wide else "NVOS21_PARAMETERS"
        form = self.form(name)
        top = form.pack(hRoot=client.handle, hObjectParent=parent, hObjectNew=handle, hClass=class_id)
        done = self.call(client.who, ALLOC, (name, "pAllocParms"), top, params, how)
        return done, form.get(done.top, "hObjectNew")

    def raw(self, who: tuple[Process, int], nr: int, top: bytearray) -> None:
        """Make a call whose answer does not matter."""
        self.call(who, nr, ("NVOS00_PARAMETERS", ""), top, None, How())

    def hold(self, process: Process, memory: tuple[int, int], *, fail: bool, between: Between | None) -> int:
        """UVM duplicates memory of a client: the number of its hold, or negative errno."""
        meanwhile = NOTHING(between) if between else NOTHING()
        container, number = process.container, process.number
        found: int = self.c.stage_hold(self.stage, container, number, *memory, int(fail), meanwhile)
        return found

    def client(self, process: Process, file: int, how: How) -> Client | None:
        """Make an RM client; None when the call fails."""
        client = Client(process, file, 0)
        done, client.handle = self.alloc(client, 0, 0, ROOT, None, how)
        return client if done.result == 0 and done.status == 0 else None

    def device(self, client: Client, handle: int, gpu: int, how: How) -> tuple[Done, int]:
        params = self.form("NV0080_ALLOC_PARAMETERS").pack(deviceId=gpu)
        return self.alloc(client, client.handle, handle, DEVICE, params, how)

    def subdevice(self, client: Client, device: int, handle: int, how: How) -> tuple[Done, int]:
        params = self.form("NV2080_ALLOC_PARAMETERS").pack()
        return self.alloc(client, device, handle, SUBDEVICE, params, how)

    def memory(
        self, client: Client, parent: int, handle: int, fields: dict[str, int], how: How, kind: int = VIDEO
    ) -> tuple[Done, int]:
        """Ask for memory of the card, or of the host. fields: size, attr, attr2 and so on."""
        params = self.form("NV_MEMORY_ALLOCATION_PARAMS").pack(owner=1, **fields)
        return self.alloc(client, parent, handle, kind, params, how)

    def heap(self, client: Client, function: int, fields: dict[str, int], how: How) -> Done:
        form = self.form("NVOS32_PARAMETERS")
        top = form.pack(hRoot=client.handle, function=function, **fields)
        return self.call(client.who, HEAP, ("NVOS32_PARAMETERS", ""), top, None, how)

    def dup(self, client: Client, parent: int, handle: int, source: tuple[int, int], how: How) -> Done:
        """Duplicate an object of another client, or of the same."""
        top = self.form("NVOS55_PARAMETERS").pack(
            hClient=client.handle, hParent=parent, hObject=handle, hClientSrc=source[0], hObjectSrc=source[1]
        )
        return self.call(client.who, DUP, ("NVOS55_PARAMETERS", ""), top, None, how)

    def share(self, client: Client, source: tuple[int, int], policy: tuple[int, int], how: How) -> Done:
        """Say who may duplicate an object. source: its client and itself. policy: the type, and a target."""
        top = self.form("NVOS57_PARAMETERS").pack(
            hClient=source[0],
            hObject=source[1],
            sharePolicy__type=policy[0],
            sharePolicy__target=policy[1],
            sharePolicy__accessMask=1,
            sharePolicy__action=COMPOSE,
        )
        return self.call(client.who, SHARE, ("NVOS57_PARAMETERS", ""), top, None, how)

    def free(self, client: Client, handle: int, how: How) -> Done:
        top = self.form("NVOS00_PARAMETERS").pack(hRoot=client.handle, hObjectOld=handle)
        return self.call(client.who, FREE, ("NVOS00_PARAMETERS", ""), top, None, how)

    def control(self, client: Client, target: int, command: int, params: bytearray, how: How) -> Done:
        top = self.form("NVOS54_PARAMETERS").pack(
            hClient=client.handle, hObject=target, cmd=command, paramsSize=len(params)
        )
        return self.call(client.who, CONTROL, ("NVOS54_PARAMETERS", "params"), top, params, how)

    def fb_info(self, client: Client, subdevice: int) -> tuple[int, int, int]:
        """Ask how large a card is and what is free: status, and both in bytes."""
        form = self.form("NV2080_CTRL_FB_GET_INFO_V2_PARAMS")
        at, entry = form.fields["fbInfoList"][0], self.form("NV2080_CTRL_FB_INFO")
        params = form.pack(fbInfoListSize=2)
        for place, index in enumerate((HEAP_SIZE, HEAP_FREE)):
            start = at + place * entry.size
            params[start : start + entry.size] = entry.pack(index=index)
        done = self.control(client, subdevice, FB_INFO_V2, params, How())
        values = [entry.get(done.params[at + place * entry.size :], "data") << 10 for place in range(2)]
        return done.status, values[0], values[1]

    def export(self, client: Client, handles: list[int], place: tuple[int, int, int], how: How) -> Done:
        """Export to a file. place: the file, the first place in it, how many it is for; 0: for one."""
        file, index, most = place
        gpu = client.objects[handles[0]].gpu if handles[0] in client.objects else 0
        device = next((h for h in client.of("device") if client.objects[h].gpu == gpu), 0)
        if most == 0:
            form = self.form("NV0000_CTRL_OS_UNIX_EXPORT_OBJECT_TO_FD_PARAMS")
            fields: dict[str, Any] = {"object__type": RM_OBJECT, "object__data__rmObject__hDevice": device}
            fields |= {"object__data__rmObject__hObject": handles[0], "fd": file}
            return self.control(client, client.handle, EXPORT, form.pack(**fields), how)
        form = self.form("NV0000_CTRL_OS_UNIX_EXPORT_OBJECTS_TO_FD_PARAMS")
        params = form.pack(fd=file, hDevice=device, maxObjects=most, numObjects=len(handles), index=index)
        self.put_list(params, form, handles)
        return self.control(client, client.handle, EXPORTS, params, how)

    def import_(
        self, client: Client, to: tuple[int, list[int]], file: int, index: int | None, how: How
    ) -> tuple[Done, list[int]]:
        """Import from a file, below a parent; index None: the form for one. The answer, and the handles."""
        parent, handles = to
        if index is None:
            form = self.form("NV0000_CTRL_OS_UNIX_IMPORT_OBJECT_FROM_FD_PARAMS")
            at = "object.data.rmObject.hObject"
            params = form.pack(fd=file, object__type=RM_OBJECT, object__data__rmObject__hParent=parent)
            form.put(params, at, handles[0])
            done = self.control(client, client.handle, IMPORT, params, how)
            return done, [form.get(done.params, at)]
        form = self.form("NV0000_CTRL_OS_UNIX_IMPORT_OBJECTS_FROM_FD_PARAMS")
        params = form.pack(fd=file, hParent=parent, numObjects=len(handles), index=index)
        self.put_list(params, form, handles)
        done = self.control(client, client.handle, IMPORTS, params, how)
        start = form.fields["objects"][0]
        made = [int.from_bytes(done.params[start + 4 * at :][:4], "little") for at in range(len(handles))]
        return done, made

    @staticmethod
    def put_list(params: bytearray, form: Layout, handles: list[int]) -> None:
        start = form.fields["objects"][0]
        for at, handle in enumerate(handles):
            params[start + 4 * at : start + 4 * at + 4] = handle.to_bytes(4, "little")
