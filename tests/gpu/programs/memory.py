# SPDX-License-Identifier: Apache-2.0
"""Takes memory by one of CUDA's ways, block by block, until it is refused or has enough.

Prints a line of JSON with what it got, waits for a line on standard input, frees all, prints a second one,
waits again, and ends.

usage: python3 -m tests.gpu.programs.memory info
       python3 -m tests.gpu.programs.memory fill KIND BLOCK_MIB STOP_MIB [BYTE]
"""

from __future__ import annotations

import contextlib
import sys
from ctypes import byref, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p

from tests.gpu.programs.cuda import ATTACH_GLOBAL, CAPTURE_RELAXED, DEVICE, Cuda, CudaError, say

MIB = 1 << 20


class Way:
    """cudaMalloc, and parts of all ways."""

    def __init__(self, cuda: Cuda, size: int) -> None:
        self.cuda = cuda
        self.size = size

    def take(self) -> int:
        """Return the address of one block. Raises CudaError."""
        return self.cuda.alloc(self.size)

    def give(self, address: int) -> None:
        self.cuda.call("cuMemFree_v2", c_uint64(address))

    def end(self) -> None:
        """Give back what the way itself keeps."""


class Managed(Way):
    """cudaMallocManaged."""

    def take(self) -> int:
        """Map a block; set_bytes of it then moves it to the card."""
        out = c_uint64()
        self.cuda.call("cuMemAllocManaged", byref(out), c_size_t(self.size), c_uint(ATTACH_GLOBAL))
        return out.value


class Async(Way):
    """cudaMallocAsync, from the device's pool."""

    def __init__(self, cuda: Cuda, size: int) -> None:
        super().__init__(cuda, size)
        self.stream = cuda.stream()

    def take(self) -> int:
        out = c_uint64()
        self.cuda.call("cuMemAllocAsync", byref(out), c_size_t(self.size), self.stream)
        self.cuda.call("cuStreamSynchronize", self.stream)
        return out.value

    def give(self, address: int) -> None:
        self.cuda.call("cuMemFreeAsync", c_uint64(address), self.stream)

    def end(self) -> None:
        self.cuda.call("cuStreamSynchronize", self.stream)
        pool = c_void_p()
        self.cuda.call("cuDeviceGetDefaultMemPool", byref(pool), c_int(DEVICE))
        self.cuda.call("cuMemPoolTrimTo", pool, c_size_t(0))


class Graph(Async):
    """A CUDA graph whose nodes allocate and fill."""

    def __init__(self, cuda: Cuda, size: int) -> None:
        """Keep the graphs: their memory lives as long."""
        super().__init__(cuda, size)
        self.graphs: list[tuple[c_void_p, c_void_p]] = []

    def take(self) -> int:
        """Capture an allocation, and run it."""
        out, graph, runnable = c_uint64(), c_void_p(), c_void_p()
        self.cuda.call("cuStreamBeginCapture_v2", self.stream, c_int(CAPTURE_RELAXED))
        try:
            self.cuda.call("cuMemAllocAsync", byref(out), c_size_t(self.size), self.stream)
            self.cuda.call("cuMemsetD8Async", out, c_ubyte(1), c_size_t(self.size), self.stream)
        finally:
            self.cuda.call("cuStreamEndCapture", self.stream, byref(graph))
        self.cuda.call("cuGraphInstantiateWithFlags", byref(runnable), graph, c_uint64(0))
        self.graphs.append((graph, runnable))
        self.cuda.call("cuGraphLaunch", runnable, self.stream)
        self.cuda.call("cuStreamSynchronize", self.stream)
        return out.value

    def end(self) -> None:
        self.cuda.call("cuStreamSynchronize", self.stream)
        for graph, runnable in self.graphs:
            self.cuda.call("cuGraphExecDestroy", runnable)
            self.cuda.call("cuGraphDestroy", graph)
        self.cuda.call("cuDeviceGraphMemTrim", c_int(DEVICE))


class Vmm(Way):
    """cuMemCreate and cuMemMap."""

    def __init__(self, cuda: Cuda, size: int) -> None:
        """Blocks are whole pieces."""
        piece = cuda.granularity()
        super().__init__(cuda, (size + piece - 1) // piece * piece)
        self.handles: dict[int, int] = {}

    def take(self) -> int:
        handle = self.cuda.create(self.size)
        try:
            address = self.cuda.map(handle, self.size)
        except CudaError:
            self.cuda.call("cuMemRelease", c_uint64(handle))
            raise
        self.handles[address] = handle
        return address

    def give(self, address: int) -> None:
        self.cuda.unmap(address, self.size)
        self.cuda.call("cuMemRelease", c_uint64(self.handles.pop(address)))


WAYS: dict[str, type[Way]] = {"malloc": Way, "async": Async, "vmm": Vmm, "managed": Managed, "graph": Graph}


def fill(kind: str, block: int, stop: int, value: int) -> None:
    """Take, tell, wait, check that no other has written there, free, tell."""
    cuda = Cuda()
    before, total = cuda.info()
    way = WAYS[kind](cuda, block)
    held: list[int] = []
    error = ""
    try:
        while len(held) * way.size < stop:
            held.append(way.take())
            cuda.set_bytes(held[-1], value, way.size)
    except CudaError as refused:
        error = str(refused)
    free, _ = cuda.info()
    say(kind=kind, total=total, before=before, taken=len(held) * way.size, free=free, error=error)
    sys.stdin.readline()
    # The last block may have been refused while it was filled.
    whole = held if not error.startswith("cuMemset") else held[:-1]
    ends = [at for address in whole for at in (address, address + way.size - 1)]
    kept = all(cuda.byte_at(at) == value for at in ends)
    for address in held:
        way.give(address)
    way.end()
    say(kind=kind, kept=kept, free=cuda.info()[0])
    with contextlib.suppress(KeyboardInterrupt):
        sys.stdin.readline()


def main() -> None:
    if sys.argv[1] == "info":
        cuda = Cuda()
        free, total = cuda.info()
        say(free=free, total=total, cuda=cuda.version())
        return
    kind, block, stop = sys.argv[2], int(sys.argv[3]) * MIB, int(sys.argv[4]) * MIB
    fill(kind, block, stop, int(sys.argv[5]) if len(sys.argv) > 5 else 1)


if __name__ == "__main__":
    main()
