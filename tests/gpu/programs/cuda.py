# SPDX-License-Identifier: Apache-2.0
"""CUDA's driver interface by ctypes, as much of it as the checks need. Needs no toolkit."""

from __future__ import annotations

import ctypes
import json
import sys
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from typing import Any

LIBRARY = "libcuda.so.1"
DEVICE = 0
PINNED, ON_DEVICE, READ_WRITE, POSIX_FD = 1, 1, 3, 1
LAZY_PEER, ATTACH_GLOBAL, CAPTURE_RELAXED = 1, 1, 2

# Enough work that a launch outlasts a time slice. The last lines keep the loop from being left out.
SPIN = """
.version {version}
.target {target}
.address_size 64
.visible .entry spin(.param .u64 count)
{{
    .reg .pred %more, %never;
    .reg .u64 %i, %n;
    .reg .f32 %x;
    ld.param.u64 %n, [count];
    mov.u64 %i, 0;
    mov.f32 %x, 0f3F000000;
loop:
    fma.rn.f32 %x, %x, %x, %x;
    add.u64 %i, %i, 1;
    setp.lt.u64 %more, %i, %n;
    @%more bra loop;
    setp.eq.f32 %never, %x, 0fC2280000;
    @%never trap;
    ret;
}}
"""
TARGETS = (("6.3", "sm_75"), ("6.0", "sm_60"))


class CudaError(Exception):
    """A call that did not succeed; the message is CUDA's name of the error."""


class Location(ctypes.Structure):
    """CUmemLocation."""

    _fields_ = (("type", c_int), ("id", c_int))


class Properties(ctypes.Structure):
    """CUmemAllocationProp."""

    _fields_ = (
        ("type", c_int),
        ("handle_types", c_int),
        ("location", Location),
        ("win32", c_void_p),
        ("flags", c_uint64),
    )


class Access(ctypes.Structure):
    """CUmemAccessDesc."""

    _fields_ = (("location", Location), ("flags", c_int))


class IpcHandle(ctypes.Structure):
    """CUipcMemHandle."""

    _fields_ = (("bytes", ctypes.c_ubyte * 64),)


def say(**words: Any) -> None:
    """Print one line of JSON."""
    print(json.dumps(words), flush=True)


class Cuda:
    """The library, and the device's primary context."""

    def __init__(self, *, context: bool = True) -> None:
        """Load and initialise. Ends the program with one line when there is no CUDA."""
        try:
            self._lib = ctypes.CDLL(LIBRARY)
        except OSError as error:
            sys.exit(
                f"{LIBRARY}: cannot be loaded ({error}): the NVIDIA driver's libraries are not installed"
            )
        try:
            self.call("cuInit", c_uint(0))
            if context:
                self.make_context()
        except CudaError as error:
            sys.exit(f"{LIBRARY}: {error}")

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function. Raises CudaError."""
        result = getattr(self._lib, name)(*arguments)
        if result != 0:
            text = c_char_p()
            self._lib.cuGetErrorName(result, byref(text))
            raise CudaError(f"{name}: {text.value.decode() if text.value else result}")

    def make_context(self) -> None:
        """Make the device's primary context and use it. Raises CudaError."""
        context = c_void_p()
        self.call("cuDevicePrimaryCtxRetain", byref(context), c_int(DEVICE))
        self.call("cuCtxSetCurrent", context)

    def version(self) -> int:
        """Return the version of CUDA that the driver has, as 13000 for 13.0."""
        out = c_int()
        self.call("cuDriverGetVersion", byref(out))
        return out.value

    def info(self) -> tuple[int, int]:
        """Return free and total bytes."""
        free, total = c_size_t(), c_size_t()
        self.call("cuMemGetInfo_v2", byref(free), byref(total))
        return free.value, total.value

    def set_bytes(self, address: int, value: int, size: int) -> None:
        """Fill memory, and wait for it."""
        self.call("cuMemsetD8_v2", c_uint64(address), ctypes.c_ubyte(value), c_size_t(size))
        self.call("cuCtxSynchronize")

    def byte_at(self, address: int) -> int:
        out = ctypes.c_ubyte()
        self.call("cuMemcpyDtoH_v2", byref(out), c_uint64(address), c_size_t(1))
        return out.value

    def alloc(self, size: int) -> int:
        """Return the address of new memory. Raises CudaError."""
        out = c_uint64()
        self.call("cuMemAlloc_v2", byref(out), c_size_t(size))
        return out.value

    def properties(self, handle_types: int = 0) -> Properties:
        """Return what cuMemCreate is told: pinned memory of the device."""
        return Properties(PINNED, handle_types, Location(ON_DEVICE, DEVICE), None, 0)

    def create(self, size: int, handle_types: int = 0) -> int:
        """Return a handle of memory without an address."""
        out = c_uint64()
        self.call(
            "cuMemCreate", byref(out), c_size_t(size), byref(self.properties(handle_types)), c_uint64(0)
        )
        return out.value

    def map(self, handle: int, size: int) -> int:
        """Give memory an address."""
        out = c_uint64()
        self.call("cuMemAddressReserve", byref(out), c_size_t(size), c_size_t(0), c_uint64(0), c_uint64(0))
        self.call("cuMemMap", out, c_size_t(size), c_size_t(0), c_uint64(handle), c_uint64(0))
        access = Access(Location(ON_DEVICE, DEVICE), READ_WRITE)
        self.call("cuMemSetAccess", out, c_size_t(size), byref(access), c_size_t(1))
        return out.value

    def unmap(self, address: int, size: int) -> None:
        """Take an address back."""
        self.call("cuMemUnmap", c_uint64(address), c_size_t(size))
        self.call("cuMemAddressFree", c_uint64(address), c_size_t(size))

    def granularity(self) -> int:
        """Return the least piece of memory that cuMemCreate gives."""
        out = c_size_t()
        self.call("cuMemGetAllocationGranularity", byref(out), byref(self.properties()), c_uint(0))
        return out.value

    def stream(self) -> c_void_p:
        """Return a new stream that does not wait for the default one."""
        out = c_void_p()
        self.call("cuStreamCreate", byref(out), c_uint(1))
        return out

    def spin_kernel(self) -> c_void_p:
        """Return a kernel that takes a number of rounds. Raises CudaError."""
        module, function = c_void_p(), c_void_p()
        for version, target in TARGETS:
            try:
                text = SPIN.format(version=version, target=target).encode()
                self.call("cuModuleLoadData", byref(module), c_char_p(text))
                break
            except CudaError:
                if target == TARGETS[-1][1]:
                    raise
        self.call("cuModuleGetFunction", byref(function), module, c_char_p(b"spin"))
        return function

    def launch(self, function: c_void_p, rounds: int) -> None:
        """Run a kernel of one thread, and wait for it."""
        count = c_uint64(rounds)
        arguments = (c_void_p * 1)(ctypes.cast(byref(count), c_void_p))
        one = [c_uint(1)] * 6
        self.call("cuLaunchKernel", function, *one, c_uint(0), None, arguments, None)
        self.call("cuCtxSynchronize")
