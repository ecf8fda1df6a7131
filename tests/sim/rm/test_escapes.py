# SPDX-License-Identifier: Apache-2.0
"""How an ioctl is decoded: numbers, sizes, devices, transfer wrappers, errno, and hostile callers."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
import random

import pytest

from tests.sim.abi import (
    ALLOC,
    ALLOC_MEMORY,
    ATTACH,
    CARD_INFO,
    CONTROL,
    DUP,
    FB_INFO_V2,
    FREE,
    HEAP,
    HOST,
    MIB,
    PAGE_BIG,
    PINNED,
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


@pytest.mark.parametrize("magic", [0x46, 0, 0x54, 0xFF])
@pytest.mark.parametrize("direction", [0, 1, 2, 3])
def test_magic_and_direction_are_ignored(sim: Sim, client: Client, magic: int, direction: int) -> None:
    """Any magic byte and direction bits make the same call, with answers in the structure."""
    form = sim.layout("NVOS64_PARAMETERS")
    params = client.memory(PAGE_BIG)
    data = form.pack(
        hRoot=client.handle, hObjectParent=client.device, hClass=VIDEO, pAllocParms=address(params)
    )
    raw_ioctl(client.ctl, command(ALLOC, len(data), magic, direction), data)
    assert form.get(data, "status") == Status.OK
    assert form.get(data, "hObjectNew") != 0
    assert sim.used() == PAGE_BIG


def transfer_wrapper(nr: int, size: int, where: int) -> bytearray:
    """Return the structure of NV_ESC_IOCTL_XFER_CMD."""
    return bytearray(nr.to_bytes(4, "little") + size.to_bytes(4, "little") + where.to_bytes(8, "little"))


@pytest.mark.parametrize("direction", [0, 1, 2, 3])
def test_transfer_wrapper(sim: Sim, client: Client, direction: int) -> None:
    """The transfer wrapper reaches every call, and its answer goes to where it points."""
    form = sim.layout("NVOS00_PARAMETERS")
    _, handle, _ = client.alloc_memory(PAGE_BIG)
    data = form.pack(hRoot=client.handle, hObjectOld=handle, status=77)
    wrapper = transfer_wrapper(FREE, len(data), address(data))
    before = bytes(wrapper)
    raw_ioctl(client.ctl, command(XFER, 16, direction=direction), wrapper)
    assert form.get(data, "status") == Status.OK
    assert bytes(wrapper) == before
    assert sim.used() == 0


def test_bad_transfer_wrappers(client: Client) -> None:
    """Wrong sizes, a wrapper in a wrapper, too large a content and bad pointers have their errno."""
    data = bytearray(20000)
    where = address(data)
    number = command(XFER, 16)
    assert errno_of(client.ctl, command(XFER, 24), bytearray(24)) == errno.EINVAL
    assert errno_of(client.ctl, number, transfer_wrapper(XFER, 16, where)) == errno.EINVAL
    assert errno_of(client.ctl, number, transfer_wrapper(CARD_INFO, 16385, where)) == errno.EINVAL
    assert errno_of(client.ctl, number, transfer_wrapper(CARD_INFO, 16384, where)) == 0
    assert errno_of(client.ctl, number, transfer_wrapper(FREE, 16, 8)) == errno.EFAULT
    assert errno_of(client.ctl, number, transfer_wrapper(FREE + 256, 16, where)) == errno.EINVAL
    assert errno_of(client.ctl, command(XFER, 16, direction=0), 8) == errno.EFAULT


def test_sizes(client: Client) -> None:
    """A wrong structure size is EINVAL, an unknown number too."""
    for nr, size in SIZES.items():
        for wrong in (size - 4, size + 4, 0):
            assert errno_of(client.ctl, command(nr, wrong), bytearray(256)) == errno.EINVAL
    for size in (0, 16, 40, 64):
        assert errno_of(client.ctl, command(ALLOC, size), bytearray(64)) == errno.EINVAL
    known = {*SIZES, ALLOC, ALLOC_MEMORY, ATTACH, CARD_INFO, REGISTER_FD, WAIT_OPEN, XFER}
    for nr in range(256):
        if nr not in known:
            assert errno_of(client.ctl, command(nr, 32), bytearray(32)) == errno.EINVAL


def test_devices(sim: Sim) -> None:
    """A call on the wrong kind of node is EINVAL; event objects work on both."""
    with sim.client() as client, sim.tied(client) as card:
        for nr, size in SIZES.items():
            assert errno_of(card, command(nr, size), bytearray(size)) == errno.EINVAL
        assert (
            errno_of(card, command(ALLOC, 48), sim.layout("NVOS64_PARAMETERS").pack(hClass=VIDEO))
            == errno.EINVAL
        )
        assert errno_of(client.ctl, command(ALLOC_MEMORY, 56), bytearray(56)) == errno.EINVAL
        form = sim.layout("NVOS64_PARAMETERS")
        data = form.pack(hRoot=client.handle, hObjectParent=client.subdevice, hClass=0x79)
        raw_ioctl(card, command(ALLOC, 48), data)
        assert form.get(data, "status") == Status.OK


def test_old_memory_call(sim: Sim) -> None:
    """The old call with class 0x40 takes no memory and tells the card's size; host memory is an object."""
    with sim.client() as client, sim.tied(client) as card:
        form = sim.layout("nv_ioctl_nvos02_parameters_with_fd")
        for class_id, limit in ((VIDEO, 15109 * MIB - 1), (HOST, 0)):
            data = form.pack(
                params__hRoot=client.handle, params__hObjectParent=client.device, params__hClass=class_id
            )
            raw_ioctl(card, command(ALLOC_MEMORY, 56), data)
            assert form.get(data, "params.status") == Status.OK
            assert form.get(data, "params.limit") == limit
        assert sim.used() == 0


# Cached pages, anywhere, that are not mapped again: fields of NVOS02_FLAGS.
PINNED_FLAGS = 1 << 30 | 1 << 12 | 1 << 4


@pytest.mark.parametrize(
    ("flags", "at", "limit", "status"),
    [
        (PINNED_FLAGS, 0x10000, 0xFFFF, Status.OK),
        (PINNED_FLAGS & ~(1 << 30), 0x10000, 0xFFFF, Status.INVALID_FLAGS),
        (PINNED_FLAGS & ~(1 << 12), 0x10000, 0xFFFF, Status.INVALID_FLAGS),
        (PINNED_FLAGS & ~(1 << 4), 0x10000, 0xFFFF, Status.INVALID_FLAGS),
        (PINNED_FLAGS | 2 << 8, 0x10000, 0xFFFF, Status.INVALID_FLAGS),
        (PINNED_FLAGS, 0x10010, 0xFFFF, Status.NOT_SUPPORTED),
        (PINNED_FLAGS, 0x10000, 2**64 - 1, Status.INVALID_LIMIT),
    ],
)
def test_own_memory_by_the_old_call(sim: Sim, flags: int, at: int, limit: int, status: int) -> None:
    """Own memory is pinned with what NVIDIA's driver takes as flags, address and size, and nothing else."""
    with sim.client() as client, sim.tied(client) as card:
        form = sim.layout("nv_ioctl_nvos02_parameters_with_fd")
        data = form.pack(
            params__hRoot=client.handle, params__hObjectParent=client.device, params__hClass=PINNED,
            params__flags=flags, params__pMemory=at, params__limit=limit,
        )  # fmt: skip
        raw_ioctl(card, command(ALLOC_MEMORY, 56), data)
        assert form.get(data, "params.status") == status


def test_version_handshake(sim: Sim) -> None:
    """The version can be asked for, or compared as a whole or up to its first dot; a mismatch is EINVAL."""
    form = sim.layout("nv_ioctl_rm_api_version_t")
    ctl = sim.open()

    def check(how: int, text: bytes) -> tuple[int, int, bytes]:
        data = form.pack(cmd=how)
        data[8 : 8 + len(text)] = text
        code = errno_of(ctl, command(VERSION, len(data)), data)
        return code, form.get(data, "reply"), bytes(data[8:]).rstrip(b"\0")

    assert check(ord("2"), b"") == (0, 1, b"580.142")
    assert check(0, b"580.142") == (0, 1, b"580.142")
    assert check(ord("1"), b"580.9") == (0, 1, b"580.9")
    assert check(0, b"580.9") == (errno.EINVAL, 1, b"580.142")
    assert check(ord("1"), b"581.142") == (errno.EINVAL, 1, b"580.142")
    os.close(ctl)


def test_card_info(sim: Sim) -> None:
    """The list of cards needs room for all of them, and tells their numbers."""
    ctl = sim.open()
    form = sim.layout("nv_ioctl_card_info_t")
    assert errno_of(ctl, command(CARD_INFO, form.size), form.pack()) == errno.EINVAL
    data = bytearray(form.size * 32)
    fcntl.ioctl(ctl, command(CARD_INFO, len(data)), data, True)
    cards = [data[i : i + form.size] for i in range(0, len(data), form.size)]
    assert [card[0] for card in cards] == [1, 1] + [0] * 30
    assert [form.get(card, "minor_number") for card in cards[:2]] == [0, 1]
    assert len({form.get(card, "gpu_id") for card in cards[:2]}) == 2
    os.close(ctl)


def test_system_parameters_are_set_once(sim: Sim) -> None:
    """The first value of the block size stays; another is EBUSY."""
    ctl = sim.open()
    first = bytearray((1 << 27).to_bytes(8, "little"))
    assert errno_of(ctl, command(SYS_PARAMS, 8), first) == 0
    assert errno_of(ctl, command(SYS_PARAMS, 8), first) == 0
    assert errno_of(ctl, command(SYS_PARAMS, 8), bytearray(8)) == errno.EBUSY
    os.close(ctl)


def test_the_servers_own_number_is_closed(sim: Sim) -> None:
    """The private number by which the server knows its own files is nothing to anyone else."""
    ctl = sim.open()
    assert errno_of(ctl, 0xC0104899, bytearray(16)) == errno.EINVAL
    os.close(ctl)


def test_unreadable_structures(sim: Sim) -> None:
    """A structure that cannot be read, or cannot be written, is EFAULT; the server goes on."""
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
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
    page.close()


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
