# SPDX-License-Identifier: Apache-2.0
"""How the server takes an ioctl from FUSE: direction, transfer wrappers, errno, and hostile callers."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import random

import pytest

from tests.sim.abi import (
    ALLOC,
    ALLOC_MEMORY,
    CARD_INFO,
    CONTROL,
    DUP,
    FB_INFO_V2,
    FREE,
    HEAP,
    PAGE_BIG,
    REGISTER_FD,
    SYS_PARAMS,
    VERSION,
    VIDEO,
    WAIT_OPEN,
    XFER,
    Status,
    address,
    command,
    errno_of,
    raw_ioctl,
)
from tests.sim.client import Client
from tests.sim.support import Sim

SIZES = {FREE: 16, CONTROL: 32, HEAP: 184, DUP: 28, VERSION: 72, SYS_PARAMS: 8}


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


def test_garbage(sim: Sim) -> None:
    """Thousands of random structures on every number leave the server well and the cards empty."""
    rng = random.Random(7)  # noqa: S311
    numbers = [*SIZES, ALLOC, ALLOC_MEMORY, CARD_INFO, WAIT_OPEN, XFER, REGISTER_FD]
    sizes = {**SIZES, ALLOC_MEMORY: 56, CARD_INFO: 2304, WAIT_OPEN: 8, XFER: 16, REGISTER_FD: 4}
    with sim.client() as client:
        card = sim.open("nvidia0")
        pool = [
            client.handle,
            client.device,
            client.subdevice,
            VIDEO,
            0x41,
            0x80,
            FB_INFO_V2,
            0,
            2,
            3,
            5,
            0xFFFFFFFF,
        ]
        for _ in range(4000):
            nr = rng.choice(numbers)
            size = rng.choice((32, 48)) if nr == ALLOC else sizes[nr]
            data = bytearray(rng.randbytes(size))
            for at in range(0, size - 3, 4):
                if rng.random() < 0.7:
                    data[at : at + 4] = rng.choice(pool).to_bytes(4, "little")
            # Numbers and sizes of other calls are for the transfer wrapper to carry.
            fd = card if rng.random() < 0.2 else client.ctl
            if nr == FREE and data[:4] == client.handle.to_bytes(4, "little"):
                continue
            number = command(nr, size, rng.randrange(256), rng.randrange(4))
            assert errno_of(fd, number, data) in {0, errno.EINVAL, errno.EFAULT, errno.EBUSY, errno.EAGAIN}
        os.close(card)
        client.close()
    assert sim.process.poll() is None
    assert sim.settles(0, 0)
    assert sim.settles(1, 0)
