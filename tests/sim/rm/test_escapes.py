# SPDX-License-Identifier: Apache-2.0
"""How the server takes an ioctl from FUSE: direction, transfer wrappers, errno, and hostile callers."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os

import pytest

from tests.sim.abi import (
    ALLOC,
    FREE,
    PAGE_BIG,
    VIDEO,
    XFER,
    Status,
    address,
    command,
    errno_of,
    raw_ioctl,
)
from tests.sim.client import Client
from tests.sim.support import Sim


def transfer_wrapper(nr: int, size: int, where: int) -> bytearray:
    """Return the structure of NV_ESC_IOCTL_XFER_CMD."""
    return bytearray(nr.to_bytes(4, "little") + size.to_bytes(4, "little") + where.to_bytes(8, "little"))


@pytest.mark.parametrize("direction", [0, 1, 2, 3])
def test_any_number_of_a_call(sim: Sim, client: Client, direction: int) -> None:
    """Any magic byte and direction bits make the same call, by itself or in a transfer wrapper."""
    form = sim.layout("NVOS64_PARAMETERS")
    params = client.memory(PAGE_BIG)
    data = form.pack(
        hRoot=client.handle, hObjectParent=client.device, hClass=VIDEO, pAllocParms=address(params)
    )
    raw_ioctl(client.ctl, command(ALLOC, len(data), 0x54, direction), data)
    assert (form.get(data, "status"), sim.used()) == (Status.OK, PAGE_BIG)
    free = sim.layout("NVOS00_PARAMETERS")
    inner = free.pack(hRoot=client.handle, hObjectOld=form.get(data, "hObjectNew"), status=77)
    wrapper = transfer_wrapper(FREE, len(inner), address(inner))
    before = bytes(wrapper)
    raw_ioctl(client.ctl, command(XFER, 16, direction=direction), wrapper)
    assert (free.get(inner, "status"), sim.used()) == (Status.OK, 0)
    assert bytes(wrapper) == before


def test_the_servers_own_number_is_closed(sim: Sim) -> None:
    """The private number by which the server knows its own files is nothing to anyone else."""
    ctl = sim.open()
    assert errno_of(ctl, 0xC0104899, bytearray(16)) == errno.EINVAL
    os.close(ctl)


def test_unreadable_structures(sim: Sim) -> None:
    """A structure that cannot be read, or cannot be written, is EFAULT; the server goes on."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    where = libc.mmap(None, ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ, flags, -1, ctypes.c_long(0))
    with sim.client() as client:
        for direction in range(4):
            assert errno_of(client.ctl, command(FREE, 16, direction=direction), 8) == errno.EFAULT
            assert errno_of(client.ctl, command(FREE, 16, direction=direction), where) == errno.EFAULT
        assert client.alloc_memory(PAGE_BIG)[0] == Status.OK
    libc.munmap(ctypes.c_void_p(where), ctypes.c_size_t(mmap.PAGESIZE))
