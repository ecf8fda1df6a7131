# SPDX-License-Identifier: Apache-2.0
"""System calls that Python 3.11 has no function for. All raise OSError."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Mapping

from cgpu.errors import CgpuError

# The arch field of seccomp_data (include/uapi/linux/audit.h), and the bit in the number of x32 system calls.
X86_64, I386, X32_BIT = 0xC000003E, 0x40000003, 0x40000000
AARCH64, ARM = 0xC00000B7, 0x40000028
# System call numbers of each machine's kernel: arch/x86/entry/syscalls/*.tbl, with those of x32;
# include/uapi/asm-generic/unistd.h, arch/arm64/include/asm/unistd32.h.
NUMBERS: Mapping[str, Mapping[int, Mapping[str, tuple[int, ...]]]] = {
    "x86_64": {
        X86_64: {"ioctl": (16, X32_BIT + 514), "mmap": (9, X32_BIT + 9), "seccomp": (317, X32_BIT + 317)},
        I386: {"ioctl": (54,), "mmap": (90,), "mmap2": (192,), "seccomp": (354,)},
    },
    "aarch64": {
        AARCH64: {"ioctl": (29,), "mmap": (222,), "seccomp": (277,)},
        ARM: {"ioctl": (54,), "mmap2": (192,), "seccomp": (383,)},
    },
}
# include/uapi/linux/seccomp.h
SET_MODE_FILTER = 1
SPEC_ALLOW, NEW_LISTENER, WAIT_KILLABLE_RECV = 1 << 2, 1 << 3, 1 << 5
INSTRUCTION_BYTES = 8
# include/uapi/linux/mount.h, sched.h
MS_NOSUID, MS_BIND, MS_REC, MS_SLAVE = 1 << 1, 1 << 12, 1 << 14, 1 << 19
CLONE_NEWNS = 0x00020000


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _failed(what: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), what)


def numbers(machine: str) -> Mapping[int, Mapping[str, tuple[int, ...]]]:
    """Return a machine's system call numbers by architecture, its own first. Raises CgpuError."""
    if machine not in NUMBERS:
        raise CgpuError(f"this machine is {machine}: expected {' or '.join(NUMBERS)}")
    return NUMBERS[machine]


def unshare_mounts() -> None:
    """Give this process a mount namespace of its own, which still follows changes of the old one."""
    if _libc().unshare(CLONE_NEWNS) != 0:
        raise _failed("unshare")
    mount("none", "/", "", MS_REC | MS_SLAVE)


def mount(source: str, target: str, kind: str, flags: int, data: str = "") -> None:
    """Mount a source on a target."""
    paths = (os.fsencode(source), os.fsencode(target), kind.encode())
    if _libc().mount(*paths, ctypes.c_ulong(flags), data.encode()) != 0:
        raise _failed(target)


def listen(program: bytes) -> int:
    """Put a seccomp filter on this thread for good, and return its listener, which is closed at exec.

    The flags are those that container runtimes set: on kernels before 5.19 without the one that keeps signals
    from interrupting a call that the engine has begun with.
    """
    filled = _Program(len(program) // INSTRUCTION_BYTES, program)
    libc = _libc()
    libc.syscall.restype = ctypes.c_long
    own = next(iter(numbers(os.uname().machine).values()))
    for flags in (NEW_LISTENER | SPEC_ALLOW | WAIT_KILLABLE_RECV, NEW_LISTENER | SPEC_ALLOW):
        mode = (ctypes.c_long(own["seccomp"][0]), ctypes.c_ulong(SET_MODE_FILTER), ctypes.c_ulong(flags))
        fd = int(libc.syscall(*mode, ctypes.byref(filled)))
        if fd >= 0:
            return fd
        if ctypes.get_errno() != errno.EINVAL:
            break
    raise _failed("seccomp")


def ioctl_errno(fd: int, number: int) -> int:
    """Make an ioctl without an argument; return its errno, 0 when it succeeds."""
    done = _libc().ioctl(ctypes.c_int(fd), ctypes.c_ulong(number), ctypes.c_void_p(0))
    return ctypes.get_errno() if done < 0 else 0
