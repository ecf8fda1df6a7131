# SPDX-License-Identifier: Apache-2.0
"""A client of the simulated driver in Python."""

from __future__ import annotations

import fcntl
import os
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from tests.sim.abi import (
    ALLOC,
    CONTROL,
    DEVICE,
    FB_INFO_V2,
    FREE,
    ID_INFO,
    ROOT,
    SUBDEVICE,
    Status,
    address,
    command,
)

if TYPE_CHECKING:
    from tests.sim.support import Sim


class Client(AbstractContextManager["Client"]):
    """One RM client, as a process of CUDA would have it."""

    def __init__(self, sim: Sim, ctl: int, card: int = 0) -> None:
        """Make client, device and subdevice through an open nvidiactl, which becomes this object's own."""
        self.sim = sim
        self.ctl = ctl
        self.handle = 0
        self._nodes: list[int] = []
        status, self.handle = self.alloc(0, ROOT)
        assert status == Status.OK
        number = self.params("NV0080_ALLOC_PARAMETERS", deviceId=self.attach(card))
        status, self.device = self.alloc(self.handle, DEVICE, number)
        assert status == Status.OK
        status, self.subdevice = self.alloc(self.device, SUBDEVICE, self.params("NV2080_ALLOC_PARAMETERS"))
        assert status == Status.OK

    def __exit__(self, *_: object) -> None:
        """Free the client and close; either may have happened already."""
        if self.ctl >= 0:
            self.free(self.handle)
        self.close()

    def close(self) -> None:
        """Close nvidiactl and the cards, freeing nothing by hand."""
        if self.ctl >= 0:
            os.close(self.ctl)
            self.ctl = -1
        for node in self._nodes:
            os.close(node)
        self._nodes = []

    def attach(self, card: int) -> int:
        """Open a card's node until the client is closed; return the driver's number for its device."""
        self._nodes.append(self.sim.open(f"nvidia{card}"))
        number = self.number(card)
        assert number is not None
        return number

    def number(self, card: int) -> int | None:
        """Return the driver's number for a card's device; None: not attached."""
        form = self.sim.layout("NV0000_CTRL_GPU_GET_ID_INFO_V2_PARAMS")
        params = form.pack(gpuId=(card + 1) << 8)
        status = self.control(self.handle, ID_INFO, params)
        assert status in (Status.OK, Status.INVALID_ARGUMENT)
        return form.get(params, "deviceInstance") if status == Status.OK else None

    def params(self, name: str, **values: int) -> bytearray:
        return self.sim.layout(name).pack(**values)

    def call(self, nr: int, data: bytearray) -> None:
        """Make one ioctl; raise OSError as the system call does."""
        fcntl.ioctl(self.ctl, command(nr, len(data)), data, True)

    def alloc(self, parent: int, class_id: int, params: bytearray | None = None) -> tuple[int, int]:
        """Make an object: the driver's status, and its handle."""
        where = address(params) if params is not None else 0
        data = self.params(
            "NVOS64_PARAMETERS", hRoot=self.handle, hObjectParent=parent, hClass=class_id, pAllocParms=where
        )
        self.call(ALLOC, data)
        form = self.sim.layout("NVOS64_PARAMETERS")
        return form.get(data, "status"), form.get(data, "hObjectNew")

    def free(self, handle: int) -> int:
        data = self.params("NVOS00_PARAMETERS", hRoot=self.handle, hObjectOld=handle)
        self.call(FREE, data)
        return self.sim.layout("NVOS00_PARAMETERS").get(data, "status")

    def control(self, handle: int, number: int, params: bytearray | None) -> int:
        """Make one control call."""
        data = self.params(
            "NVOS54_PARAMETERS",
            hClient=self.handle,
            hObject=handle,
            cmd=number,
            params=address(params) if params is not None else 0,
            paramsSize=len(params) if params is not None else 0,
        )
        self.call(CONTROL, data)
        return self.sim.layout("NVOS54_PARAMETERS").get(data, "status")

    def fb_info(self, *indices: int) -> list[int]:
        """Return values of FB_GET_INFO_V2, most of them KiB."""
        form = self.sim.layout("NV2080_CTRL_FB_GET_INFO_V2_PARAMS")
        params = form.pack(fbInfoListSize=len(indices))
        start = form.fields["fbInfoList"][0]
        for i, index in enumerate(indices):
            params[start + 8 * i : start + 8 * i + 4] = index.to_bytes(4, "little")
        assert self.control(self.subdevice, FB_INFO_V2, params) == Status.OK
        return [int.from_bytes(params[start + 8 * i + 4 :][:4], "little") for i in range(len(indices))]
