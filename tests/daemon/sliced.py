# SPDX-License-Identifier: Apache-2.0
"""Runs a program under a seccomp listener, as a runtime would, without any runtime.

Usage: sliced.py SECCOMP_SOCKET CONTAINER_ID PROGRAM [ARGUMENT...]

Reads one line from standard input before it goes on when SLICED_WAIT is set, so that its parent can
register its process id first. With SLICED_LISTENS the filter allows another listener, as those of earlier
versions do.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
import sys

SYS_SECCOMP = 317
SET_MODE_FILTER = 1
BUSY = 0x00050010
FLAG_NEW_LISTENER = 8
ARCH_X86_64, ARCH_I386 = 0xC000003E, 0x40000003
NOTIFY, ALLOW = 0x7FC00000, 0x7FFF0000
LD_NR, LD_ARCH, LD_ARG1, LD_ARG3 = 0, 4, 24, 40
X86_64_IOCTL, X32_IOCTL, I386_IOCTL, X86_64_MMAP = 16, 0x40000000 + 514, 54, 9


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def _instruction(code: int, true: int, false: int, k: int) -> bytes:
    return struct.pack("=HBBI", code, true, false, k)


def load(offset: int) -> bytes:
    return _instruction(0x20, 0, 0, offset)


def equal(k: int, true: int, false: int) -> bytes:
    return _instruction(0x15, true, false, k)


def bits(k: int, true: int, false: int) -> bytes:
    return _instruction(0x45, true, false, k)


def result(k: int) -> bytes:
    return _instruction(0x06, 0, 0, k)


def filter_program() -> bytes:
    """Notify ioctls that carry a size or are bare small numbers, and shared mappings."""
    return b"".join(
        [
            load(LD_ARCH),
            equal(ARCH_X86_64, 0, 4),
            load(LD_NR),
            equal(X86_64_IOCTL, 5, 0),
            equal(X32_IOCTL, 4, 0),
            equal(X86_64_MMAP, 6, 9),  # else allowed
            equal(ARCH_I386, 0, 8),
            load(LD_NR),
            equal(I386_IOCTL, 0, 6),
            # ioctl
            load(LD_ARG1),
            bits(0x3FFF0000, 5, 0),
            bits(0x0000FF00, 3, 4),
            # mmap
            load(LD_ARG3),
            bits(0x01, 0, 1),
            bits(0x20, 0, 1),
            result(ALLOW),
            result(NOTIFY),
        ]
    )


def also(nr: int) -> bytes:
    """Notify one more call of 64-bit programs, before anything else is asked."""
    return load(LD_NR) + equal(nr, 0, 1) + result(NOTIFY)


def no_second_listener() -> bytes:
    """Refuse another filter with a listener."""
    return (
        load(LD_NR) + equal(SYS_SECCOMP, 0, 3) + load(LD_ARG1) + bits(FLAG_NEW_LISTENER, 0, 1) + result(BUSY)
    )


def install() -> int:
    """Install the filter, with one more call where SLICED_ALSO names it, and return its listener."""
    program = filter_program() if "SLICED_LISTENS" in os.environ else no_second_listener() + filter_program()
    if "SLICED_ALSO" in os.environ:
        program = also(int(os.environ["SLICED_ALSO"])) + program
    argument = _Program(len(program) // 8, program)
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(SYS_SECCOMP, SET_MODE_FILTER, FLAG_NEW_LISTENER, ctypes.byref(argument))
    if fd < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return int(fd)


def state(container_id: str) -> bytes:
    """Return the OCI container process state of this process."""
    inner = {
        "ociVersion": "1.0.2",
        "id": container_id,
        "status": "creating",
        "pid": os.getpid(),
        "bundle": "/",
    }
    return json.dumps(
        {"ociVersion": "1.0.2", "fds": ["seccompFd"], "pid": os.getpid(), "metadata": "", "state": inner}
    ).encode()


def connect(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.connect(path)
    return sock


def main(path: str, container_id: str, *command: str) -> None:
    if "SLICED_WAIT" in os.environ:
        sys.stdin.readline()
    sock = connect(path)
    message = state(container_id)
    # All calls that could be notified come before the filter: no daemon answers yet.
    fd = install()
    socket.send_fds(sock, [message], [fd])
    sock.close()
    os.close(fd)
    os.execv(command[0], list(command))


if __name__ == "__main__":
    main(*sys.argv[1:])
