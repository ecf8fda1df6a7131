# SPDX-License-Identifier: Apache-2.0
"""What tests have NVIDIA's libcuda do: `python3 cuda_program.py STEP…` prints what came of it as JSON.

It runs by itself, also in containers, so it uses nothing but the standard library.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable

CUDA = ctypes.CDLL("libcuda.so.1")
MIB = 1 << 20
SUCCESS, OUT_OF_MEMORY = 0, 2
# Of cuda.h: CUdevice_attribute.
ATTRIBUTES = {
    "processors": 16, "major": 75, "minor": 76, "warp": 10, "timeout": 17, "unified": 41, "bus": 33,
    "managed": 83, "concurrent": 89, "virtual": 102, "descriptors": 103, "pools": 115,
}  # fmt: skip
Found = dict[str, object]


class CudaError(Exception):
    """A call that failed; the text has its name and number."""


def call(name: str, *arguments: object) -> None:
    """Call a function that is to succeed."""
    result = getattr(CUDA, name)(*arguments)
    if result != SUCCESS:
        raise CudaError(f"{name}: {result}")


def size() -> ctypes.c_size_t:
    return ctypes.c_size_t()


def device() -> ctypes.c_int:
    """Return the first card."""
    found = ctypes.c_int()
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(found), 0)
    return found


def context() -> None:
    """Make a context on the first card, and use it."""
    made = ctypes.c_void_p()
    call("cuCtxCreate_v2", ctypes.byref(made), 0, device())


def describe() -> Found:
    """Return what libcuda has of the first card."""
    count, first, total = ctypes.c_int(), device(), size()
    name, uuid = ctypes.create_string_buffer(100), ctypes.create_string_buffer(16)
    call("cuDeviceGetCount", ctypes.byref(count))
    call("cuDeviceGetName", name, 100, first)
    call("cuDeviceGetUuid", uuid, first)
    call("cuDeviceTotalMem_v2", ctypes.byref(total), first)
    found: Found = {
        "count": count.value,
        "name": name.value.decode(),
        "uuid": uuid.raw.hex(),
        "total": total.value,
    }
    for key, number in ATTRIBUTES.items():
        value = ctypes.c_int()
        call("cuDeviceGetAttribute", ctypes.byref(value), number, first)
        found[key] = value.value
    return found


def free_and_total() -> tuple[int, int]:
    free, total = size(), size()
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    return free.value, total.value


def allocated(amount: int) -> int:
    """Return the address of new memory of the card, or 0 when there is no more."""
    address = ctypes.c_uint64()
    result = CUDA.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(amount))
    if result not in (SUCCESS, OUT_OF_MEMORY):
        raise CudaError(f"cuMemAlloc_v2: {result}")
    return address.value if result == SUCCESS else 0


def fill() -> Found:
    """Allocate until nothing is left, in ever smaller pieces, and free all of it again."""
    context()
    before, total = free_and_total()
    pieces, amount = [], 1 << 30
    while amount >= 2 * MIB:
        address = allocated(amount)
        if address:
            pieces.append((address, amount))
        else:
            amount //= 2
    left = free_and_total()[0]
    more = allocated(2 * MIB)
    for address, _ in pieces:
        call("cuMemFree_v2", ctypes.c_uint64(address))
    filled = sum(amount for _, amount in pieces)
    after = free_and_total()[0]
    again = allocated(amount_again := 64 * MIB)
    return {
        "total": total, "before": before, "filled": filled, "left": left, "more": more,
        "after": after, "again": amount_again if again else 0,
    }  # fmt: skip


def copies() -> Found:
    """Copy to the card and back, and set memory there."""
    context()
    address, data = ctypes.c_uint64(allocated(4 * MIB)), bytes(range(256)) * 8192
    back = ctypes.create_string_buffer(len(data))
    call("cuMemcpyHtoD_v2", address, data, ctypes.c_size_t(len(data)))
    call("cuMemcpyDtoH_v2", back, address, ctypes.c_size_t(len(data)))
    large = back.raw == data
    call("cuMemcpyHtoD_v2", address, b"a few bytes.", ctypes.c_size_t(12))
    call("cuMemsetD8_v2", ctypes.c_uint64(address.value + 12), 7, ctypes.c_size_t(5))
    call("cuMemsetD32_v2", ctypes.c_uint64(address.value + 4096), 0x01020304, ctypes.c_size_t(1024))
    call("cuMemcpyDtoH_v2", back, address, ctypes.c_size_t(8192))
    return {
        "large": large,
        "small": back.raw[:18].hex(),
        "set": back.raw[4096:8192] == bytes((4, 3, 2, 1)) * 1024,
    }


def kernel() -> Found:
    """Copy within the card, for which libcuda launches a kernel. Returns what the wait for it comes to."""
    context()
    address = allocated(4 * MIB)
    second = ctypes.c_uint64(address + 2 * MIB)
    call("cuMemcpyDtoD_v2", second, ctypes.c_uint64(address), ctypes.c_size_t(MIB))
    return {"result": CUDA.cuCtxSynchronize()}


def streams() -> Found:
    """Copy from pinned memory in a stream that waits for an event of another one."""
    context()
    first, second, event = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    pinned, back = ctypes.c_void_p(), ctypes.create_string_buffer(64)
    address = ctypes.c_uint64(allocated(2 * MIB))
    call("cuMemAllocHost_v2", ctypes.byref(pinned), ctypes.c_size_t(MIB))
    ctypes.memset(pinned, 0x5A, MIB)
    for stream in (first, second):
        call("cuStreamCreate", ctypes.byref(stream), 1)
    call("cuEventCreate", ctypes.byref(event), 0)
    call("cuMemcpyHtoDAsync_v2", address, pinned, ctypes.c_size_t(MIB), first)
    call("cuEventRecord", event, first)
    call("cuStreamWaitEvent", second, event, 0)
    call("cuStreamSynchronize", second)
    call("cuEventSynchronize", event)
    call("cuMemcpyDtoH_v2", back, address, ctypes.c_size_t(64))
    return {"copied": back.raw == b"\x5a" * 64}


class IpcHandle(ctypes.Structure):
    """CUipcMemHandle, which is passed by value."""

    _fields_ = (("reserved", ctypes.c_ubyte * 64),)


def imported(handle: str) -> Found:
    """Open memory of another process, and read it."""
    context()
    address, back = ctypes.c_uint64(), ctypes.create_string_buffer(16)
    CUDA.cuIpcOpenMemHandle_v2.argtypes = (ctypes.c_void_p, IpcHandle, ctypes.c_uint)
    call(
        "cuIpcOpenMemHandle_v2",
        ctypes.byref(address),
        IpcHandle.from_buffer_copy(bytes.fromhex(handle)),
        1,
    )
    call("cuMemcpyDtoH_v2", back, address, ctypes.c_size_t(16))
    return {"read": back.raw.decode(), "free": free_and_total()[0]}


def ipc() -> Found:
    """Let another process open memory of this one: both count it once, with a context each."""
    context()
    before = free_and_total()[0]
    address, handle = ctypes.c_uint64(allocated(512 * MIB)), IpcHandle()
    call("cuMemcpyHtoD_v2", address, b"0123456789abcdef", ctypes.c_size_t(16))
    call("cuIpcGetMemHandle", ctypes.byref(handle), address)
    after = free_and_total()[0]
    command = [sys.executable, __file__, "imported", bytes(handle.reserved).hex()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: Found = json.loads(done.stdout)["imported"]
    return {"before": before, "after": after, **found}


class Place(ctypes.Structure):
    """CUmemLocation: CU_MEM_LOCATION_TYPE_DEVICE, and which."""

    _fields_ = (("kind", ctypes.c_int), ("number", ctypes.c_int))


class Properties(ctypes.Structure):
    """CUmemAllocationProp: pinned memory of a card, for POSIX file descriptors."""

    _fields_ = (
        ("kind", ctypes.c_int), ("handles", ctypes.c_int), ("place", Place), ("win32", ctypes.c_void_p),
        ("flags", ctypes.c_ubyte * 8),
    )  # fmt: skip


class Access(ctypes.Structure):
    """CUmemAccessDesc: to be read and written by a card."""

    _fields_ = (("place", Place), ("flags", ctypes.c_int))


DESCRIPTOR = 1  # CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


def created(amount: int) -> int:
    """Return the handle of new memory without an address, or 0 when there is no more."""
    handle, wanted = ctypes.c_uint64(), Properties(1, DESCRIPTOR, Place(1, 0))
    result = CUDA.cuMemCreate(
        ctypes.byref(handle), ctypes.c_size_t(amount), ctypes.byref(wanted), ctypes.c_uint64(0)
    )
    if result not in (SUCCESS, OUT_OF_MEMORY):
        raise CudaError(f"cuMemCreate: {result}")
    return handle.value if result == SUCCESS else 0


def mapped(handle: int, amount: int) -> ctypes.c_uint64:
    """Map memory at an address where the card may use it."""
    address, none = ctypes.c_uint64(), ctypes.c_uint64(0)
    call("cuMemAddressReserve", ctypes.byref(address), ctypes.c_size_t(amount), none, none, none)
    call("cuMemMap", address, ctypes.c_size_t(amount), none, ctypes.c_uint64(handle), none)
    access = Access(Place(1, 0), 3)
    call(
        "cuMemSetAccess",
        address,
        ctypes.c_size_t(amount),
        ctypes.byref(access),
        ctypes.c_size_t(1),
    )
    return address


def virtual() -> Found:
    """Map, export and import memory by CUDA's virtual memory management; then take all that there is."""
    context()
    before, amount, back = free_and_total()[0], 64 * MIB, ctypes.create_string_buffer(16)
    handle, descriptor, again = created(amount), ctypes.c_int(), ctypes.c_uint64()
    call("cuMemcpyHtoD_v2", mapped(handle, amount), b"0123456789abcdef", ctypes.c_size_t(16))
    none = ctypes.c_uint64(0)
    call("cuMemExportToShareableHandle", ctypes.byref(descriptor), ctypes.c_uint64(handle), DESCRIPTOR, none)
    call("cuMemImportFromShareableHandle", ctypes.byref(again), ctypes.c_void_p(descriptor.value), DESCRIPTOR)
    taken = before - free_and_total()[0]
    call("cuMemcpyDtoH_v2", back, mapped(again.value, amount), ctypes.c_size_t(16))
    pieces, size = amount, 1 << 30
    while size >= 2 * MIB:
        if created(size):
            pieces += size
        else:
            size //= 2
    return {"before": before, "taken": taken, "read": back.raw.decode(), "filled": pieces}


def pooled(amount: int, stream: ctypes.c_void_p) -> int:
    """Return the address of new memory of the card's pool, or 0 when there is no more."""
    address = ctypes.c_uint64()
    result = CUDA.cuMemAllocAsync(ctypes.byref(address), ctypes.c_size_t(amount), stream)
    if result not in (SUCCESS, OUT_OF_MEMORY):
        raise CudaError(f"cuMemAllocAsync: {result}")
    return address.value if result == SUCCESS else 0


def pool() -> Found:
    """Use memory of the card's pool, and then as much as there is."""
    context()
    stream, back = ctypes.c_void_p(), ctypes.create_string_buffer(16)
    call("cuStreamCreate", ctypes.byref(stream), 1)
    before, amount = free_and_total()[0], 64 * MIB
    address = ctypes.c_uint64(pooled(amount, stream))
    call("cuMemcpyHtoDAsync_v2", address, b"0123456789abcdef", ctypes.c_size_t(16), stream)
    call("cuMemcpyDtoHAsync_v2", back, address, ctypes.c_size_t(16), stream)
    call("cuStreamSynchronize", stream)
    filled, size = amount, 1 << 30
    while size >= 32 * MIB:
        if pooled(size, stream):
            filled += size
        else:
            size //= 2
    return {"before": before, "read": back.raw.decode(), "filled": filled}


def managed() -> Found:
    """Use managed memory by the processor, have it go to the card, and then ask for more than there is."""
    context()
    address, before = ctypes.c_uint64(), free_and_total()[0]
    call("cuMemAllocManaged", ctypes.byref(address), ctypes.c_size_t(64 * MIB), 1)
    ctypes.memmove(address.value, b"0123456789abcdef", 16)
    call("cuMemAdvise", address, ctypes.c_size_t(64 * MIB), 3, 0)
    call("cuMemPrefetchAsync", address, ctypes.c_size_t(64 * MIB), 0, None)
    call("cuCtxSynchronize")
    more, filled, size = ctypes.c_uint64(), 64 * MIB, 1 << 30
    while size >= 32 * MIB and filled < 2 * free_and_total()[1]:
        if CUDA.cuMemAllocManaged(ctypes.byref(more), ctypes.c_size_t(size), 1) == SUCCESS:
            filled += size
        else:
            size //= 2
    return {"before": before, "read": ctypes.string_at(address.value, 16).decode(), "filled": filled}


STEPS: dict[str, Callable[[], Found]] = {
    each.__name__: each for each in (describe, fill, copies, streams, kernel, ipc, virtual, pool, managed)
}


def main() -> int:
    """Run steps, each in a context of its own."""
    if sys.argv[1] == "imported":
        print(json.dumps({"imported": imported(sys.argv[2])}))
        return 0
    found = {name: STEPS[name]() for name in sys.argv[1:]}
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
