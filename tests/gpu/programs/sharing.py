# SPDX-License-Identifier: Apache-2.0
"""Hands memory to a second process: by cudaIpc, or by a descriptor (cuMemExportToShareableHandle).

Prints a line of JSON: whether the second one read what the first had written, or which call was refused.

usage: python3 -m tests.gpu.programs.sharing ipc|export MIB
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from ctypes import byref, c_int, c_uint, c_uint64, c_void_p

from tests.gpu.programs.cuda import LAZY_PEER, POSIX_FD, Cuda, CudaError, IpcHandle, say

MIB = 1 << 20
VALUE = 0x5C


def child(word: str, text: str, size: int) -> None:
    """Open what was handed over, read it, tell what is free meanwhile, and let go."""
    cuda = Cuda()
    try:
        if word == "ipc-child":
            address = c_uint64()
            handle = IpcHandle.from_buffer_copy(bytes.fromhex(text))
            cuda.call("cuIpcOpenMemHandle_v2", byref(address), handle, c_uint(LAZY_PEER))
            say(read=cuda.byte_at(address.value + size - 1), free=cuda.info()[0])
            cuda.call("cuIpcCloseMemHandle", address)
        else:
            imported = c_uint64()
            cuda.call("cuMemImportFromShareableHandle", byref(imported), c_void_p(int(text)), c_int(POSIX_FD))
            mapped = cuda.map(imported.value, size)
            say(read=cuda.byte_at(mapped + size - 1), free=cuda.info()[0])
            cuda.unmap(mapped, size)
            cuda.call("cuMemRelease", imported)
    except CudaError as error:
        say(refused=f"child: {error}")


def hand(word: str, text: str, size: int, fds: tuple[int, ...] = ()) -> dict[str, object]:
    """Start the second process; return what it says."""
    command = [sys.executable, "-m", "tests.gpu.programs.sharing", f"{word}-child", text, str(size // MIB)]
    done = subprocess.run(command, pass_fds=fds, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0 or not done.stdout:
        return {"refused": f"child: {done.stderr.strip()[-200:]}"}
    out: dict[str, object] = json.loads(done.stdout)
    return out


def share_ipc(cuda: Cuda, size: int) -> dict[str, object]:
    """Raises CudaError."""
    address, handle = cuda.alloc(size), IpcHandle()
    try:
        cuda.set_bytes(address, VALUE, size)
        cuda.call("cuIpcGetMemHandle", byref(handle), c_uint64(address))
        return hand("ipc", bytes(handle.bytes).hex(), size)
    finally:
        cuda.call("cuMemFree_v2", c_uint64(address))


def share_export(cuda: Cuda, size: int) -> dict[str, object]:
    """Raises CudaError."""
    handle, fd = cuda.create(size, POSIX_FD), c_int(-1)
    try:
        address = cuda.map(handle, size)
        cuda.set_bytes(address, VALUE, size)
        cuda.unmap(address, size)
        cuda.call("cuMemExportToShareableHandle", byref(fd), c_uint64(handle), c_int(POSIX_FD), c_uint64(0))
        try:
            return hand("export", str(fd.value), size, (fd.value,))
        finally:
            os.close(fd.value)
    finally:
        cuda.call("cuMemRelease", c_uint64(handle))


def main() -> None:
    word = sys.argv[1]
    if word.endswith("-child"):
        child(word, sys.argv[2], int(sys.argv[3]) * MIB)
        return
    size = int(sys.argv[2]) * MIB
    cuda = Cuda()
    before, _ = cuda.info()
    try:
        found = share_ipc(cuda, size) if word == "ipc" else share_export(cuda, size)
    except CudaError as error:
        found = {"refused": str(error)}
    say(kind=word, before=before, expected=VALUE, after=cuda.info()[0], **found)


if __name__ == "__main__":
    main()
