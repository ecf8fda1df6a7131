# SPDX-License-Identifier: Apache-2.0
"""The kernel's end of a FUSE mount, which outlives the program that served it.

Requests to the mount wait there. A program that has mounted another tree above it sends walks of paths on to
that one: after ESTALE the kernel walks a path once more from its begin (fs/namei.c, do_filp_open()).
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import threading
from pathlib import Path

from cgpu.unix_socket import await_event

DEVICE = "/dev/fuse"
DESCRIPTORS = Path("/proc/self/fd")
# include/uapi/linux/fuse.h
IN_HEADER = struct.Struct("IIQQIIII")
OUT_HEADER = struct.Struct("IiQ")
UNANSWERED = frozenset({2, 36, 42})  # FORGET, INTERRUPT, BATCH_FORGET
# READ, WRITE, READDIR, READDIRPLUS: of an open node, for which there is no path to walk.
OF_OPEN_NODES = frozenset({15, 16, 28, 44})
REQUEST_MAX = 2 << 20
QUIET_S = 0.3  # after which no path walk is under way that began before the other tree was there


def connections() -> set[int]:
    """Return this process's descriptors of FUSE mounts."""
    found = set()
    for entry in DESCRIPTORS.iterdir():
        with contextlib.suppress(OSError):
            if str(entry.readlink()) == DEVICE:
                found.add(int(entry.name))
    return found


def send_on(fd: int) -> None:
    """Send all that waits at a mount to the tree that covers it; then end the mount. Owns fd.

    A thread of its own does this, and ends soon.
    """
    threading.Thread(target=_send_on, args=(fd,), name="cgpud-covered", daemon=True).start()


def _send_on(fd: int) -> None:
    try:
        os.set_blocking(fd, False)
        while await_event(fd, QUIET_S):
            _refuse_one(fd)
    except OSError:
        pass  # the mount is gone
    finally:
        os.close(fd)


def _refuse_one(fd: int) -> None:
    """Answer one request. Raises OSError where the mount is gone."""
    with contextlib.suppress(BlockingIOError, InterruptedError):
        request = os.read(fd, REQUEST_MAX)
        _, opcode, unique, *_ = IN_HEADER.unpack_from(request)
        if opcode in UNANSWERED:
            return
        error = errno.ENOTCONN if opcode in OF_OPEN_NODES else errno.ESTALE
        # The asker may have been interrupted.
        with contextlib.suppress(FileNotFoundError):
            os.write(fd, OUT_HEADER.pack(OUT_HEADER.size, -error, unique))
