# SPDX-License-Identifier: Apache-2.0
"""Steps with NVIDIA's libcuda for tests: `python3 cuda_program.py STEP…` prints their results as JSON.

The program runs by itself, also in containers, so it uses nothing but the standard library and
tests/gpu/programs.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.gpu.programs.cuda import ATTACH_GLOBAL, POSIX_FD, Cuda, CudaError, IpcHandle

CUDA = Cuda(context=False)
MIB = 1 << 20
# CUdevice_attribute of cuda.h.
ATTRIBUTES = {
    "processors": 16, "major": 75, "minor": 76, "warp": 10, "timeout": 17, "unified": 41, "bus": 33,
    "managed": 83, "concurrent": 89, "virtual": 102, "descriptors": 103, "pools": 115,
}  # fmt: skip
Found = dict[str, object]


def device() -> c_int:
    found = c_int()
    CUDA.call("cuDeviceGet", byref(found), 0)
    return found


def context() -> None:
    made = c_void_p()
    CUDA.call("cuCtxCreate_v2", byref(made), 0, device())


def describe() -> Found:
    count, first, total = c_int(), device(), c_size_t()
    name, uuid = ctypes.create_string_buffer(100), ctypes.create_string_buffer(16)
    CUDA.call("cuDeviceGetCount", byref(count))
    CUDA.call("cuDeviceGetName", name, 100, first)
    CUDA.call("cuDeviceGetUuid", uuid, first)
    CUDA.call("cuDeviceTotalMem_v2", byref(total), first)
    found: Found = {
        "count": count.value,
        "name": name.value.decode(),
        "uuid": uuid.raw.hex(),
        "total": total.value,
    }
    for key, number in ATTRIBUTES.items():
        value = c_int()
        CUDA.call("cuDeviceGetAttribute", byref(value), number, first)
        found[key] = value.value
    return found


def had(take: Callable[[int], int], amount: int) -> int:
    """Return what a call gives for an amount of memory, or 0 when there is no more."""
    try:
        return take(amount)
    except CudaError as error:
        if not str(error).endswith("CUDA_ERROR_OUT_OF_MEMORY"):
            raise
        return 0


def all_of(take: Callable[[int], int], least: int) -> list[tuple[int, int]]:
    """Take all memory, in ever smaller pieces down to the least; return each piece and its bytes."""
    pieces, amount = [], 1 << 30
    while amount >= least:
        if piece := had(take, amount):
            pieces.append((piece, amount))
        else:
            amount //= 2
    return pieces


def write(address: int, data: bytes) -> None:
    CUDA.call("cuMemcpyHtoD_v2", c_uint64(address), data, c_size_t(len(data)))


def read(address: int, size: int) -> bytes:
    back = ctypes.create_string_buffer(size)
    CUDA.call("cuMemcpyDtoH_v2", back, c_uint64(address), c_size_t(size))
    return back.raw


def fill() -> Found:
    """Allocate until nothing is left, and free all of it again."""
    context()
    before, total = CUDA.info()
    pieces = all_of(CUDA.alloc, 2 * MIB)
    left = CUDA.info()[0]
    more = had(CUDA.alloc, 2 * MIB)
    for address, _ in pieces:
        CUDA.call("cuMemFree_v2", c_uint64(address))
    filled = sum(amount for _, amount in pieces)
    after = CUDA.info()[0]
    again = had(CUDA.alloc, amount_again := 64 * MIB)
    return {
        "total": total, "before": before, "filled": filled, "left": left, "more": more,
        "after": after, "again": amount_again if again else 0,
    }  # fmt: skip


def copies() -> Found:
    """Copy to the card and back, and set memory there."""
    context()
    address, data = CUDA.alloc(4 * MIB), bytes(range(256)) * 8192
    write(address, data)
    large = read(address, len(data)) == data
    write(address, b"a few bytes.")
    CUDA.call("cuMemsetD8_v2", c_uint64(address + 12), 7, c_size_t(5))
    CUDA.call("cuMemsetD32_v2", c_uint64(address + 4096), 0x01020304, c_size_t(1024))
    back = read(address, 8192)
    return {"large": large, "small": back[:18].hex(), "set": back[4096:] == bytes((4, 3, 2, 1)) * 1024}


def streams() -> Found:
    """Copy from pinned memory in a stream that waits for an event of another one."""
    context()
    first, second, event, pinned = CUDA.stream(), CUDA.stream(), c_void_p(), c_void_p()
    address = CUDA.alloc(2 * MIB)
    CUDA.call("cuMemAllocHost_v2", byref(pinned), c_size_t(MIB))
    ctypes.memset(pinned, 0x5A, MIB)
    CUDA.call("cuEventCreate", byref(event), 0)
    CUDA.call("cuMemcpyHtoDAsync_v2", c_uint64(address), pinned, c_size_t(MIB), first)
    CUDA.call("cuEventRecord", event, first)
    CUDA.call("cuStreamWaitEvent", second, event, 0)
    CUDA.call("cuStreamSynchronize", second)
    CUDA.call("cuEventSynchronize", event)
    return {"copied": read(address, 64) == b"\x5a" * 64}


def imported(handle: str) -> Found:
    """Open memory of another process, and read it."""
    context()
    address, opened = c_uint64(), IpcHandle.from_buffer_copy(bytes.fromhex(handle))
    CUDA.call("cuIpcOpenMemHandle_v2", byref(address), opened, c_uint(1))
    return {"read": read(address.value, 16).decode(), "free": CUDA.info()[0]}


def ipc() -> Found:
    """Let another process open memory of this one: both count it once, with a context each."""
    context()
    before = CUDA.info()[0]
    address, handle = CUDA.alloc(512 * MIB), IpcHandle()
    write(address, b"0123456789abcdef")
    CUDA.call("cuIpcGetMemHandle", byref(handle), c_uint64(address))
    after = CUDA.info()[0]
    command = [sys.executable, __file__, "imported", bytes(handle.bytes).hex()]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: Found = json.loads(done.stdout)["imported"]
    return {"before": before, "after": after, **found}


def virtual() -> Found:
    """Map, export and import memory by CUDA's virtual memory management; then take all that there is."""
    context()
    before, amount = CUDA.info()[0], 64 * MIB
    handle, descriptor, again = CUDA.create(amount, POSIX_FD), c_int(), c_uint64()
    write(CUDA.map(handle, amount), b"0123456789abcdef")
    none = c_uint64(0)
    CUDA.call("cuMemExportToShareableHandle", byref(descriptor), c_uint64(handle), POSIX_FD, none)
    CUDA.call("cuMemImportFromShareableHandle", byref(again), c_void_p(descriptor.value), POSIX_FD)
    taken = before - CUDA.info()[0]
    text = read(CUDA.map(again.value, amount), 16).decode()
    pieces = all_of(lambda size: CUDA.create(size, POSIX_FD), 2 * MIB)
    return {"before": before, "taken": taken, "read": text, "filled": amount + sum(one for _, one in pieces)}


def pool() -> Found:
    """Use memory of the card's pool, and then as much as there is."""
    context()
    stream, back = CUDA.stream(), ctypes.create_string_buffer(16)

    def pooled(size: int) -> int:
        address = c_uint64()
        CUDA.call("cuMemAllocAsync", byref(address), c_size_t(size), stream)
        return address.value

    before, amount = CUDA.info()[0], 64 * MIB
    address = c_uint64(pooled(amount))
    CUDA.call("cuMemcpyHtoDAsync_v2", address, b"0123456789abcdef", c_size_t(16), stream)
    CUDA.call("cuMemcpyDtoHAsync_v2", back, address, c_size_t(16), stream)
    CUDA.call("cuStreamSynchronize", stream)
    filled = amount + sum(size for _, size in all_of(pooled, 32 * MIB))
    return {"before": before, "read": back.raw.decode(), "filled": filled}


def managed() -> Found:
    """Use managed memory by the processor, have it go to the card, and then ask for more than there is."""
    context()
    address, before = c_uint64(), CUDA.info()[0]
    CUDA.call("cuMemAllocManaged", byref(address), c_size_t(64 * MIB), ATTACH_GLOBAL)
    ctypes.memmove(address.value, b"0123456789abcdef", 16)
    CUDA.call("cuMemAdvise", address, c_size_t(64 * MIB), 3, 0)
    CUDA.call("cuMemPrefetchAsync", address, c_size_t(64 * MIB), 0, None)
    CUDA.call("cuCtxSynchronize")
    more, filled, size = c_uint64(), 64 * MIB, 1 << 30
    while size >= 32 * MIB and filled < 2 * CUDA.info()[1]:
        try:
            CUDA.call("cuMemAllocManaged", byref(more), c_size_t(size), ATTACH_GLOBAL)
            filled += size
        except CudaError:
            size //= 2
    return {"before": before, "read": ctypes.string_at(address.value, 16).decode(), "filled": filled}


STEPS: dict[str, Callable[[], Found]] = {
    each.__name__: each for each in (describe, fill, copies, streams, ipc, virtual, pool, managed)
}


def main() -> int:
    if sys.argv[1] == "imported":
        print(json.dumps({"imported": imported(sys.argv[2])}))
        return 0
    found = {name: STEPS[name]() for name in sys.argv[1:]}
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
