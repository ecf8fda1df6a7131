# SPDX-License-Identifier: Apache-2.0
"""Notified calls that are refused whatever they ask: on /dev/dri, and unknown calls."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.daemon.harness import MIB, Daemon, long_id
from tests.integration.commands import eventually

ONE = f"gpu=0:{1024 * MIB}"
DRM_MAJOR = 226
RENDER_NODE = 128
SYS_GETPPID = 110

# A node can be opened by its path alone where no driver serves it; the filter sees its calls all the same.
ON_NODE = """
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
fd = os.open(sys.argv[1], os.O_PATH)
libc.ioctl(fd, ctypes.c_ulong(0xc0206442), ctypes.create_string_buffer(32))
called = ctypes.get_errno()
libc.mmap.restype = ctypes.c_void_p
libc.mmap(None, ctypes.c_size_t(4096), mmap.PROT_READ, mmap.MAP_SHARED, fd, ctypes.c_long(0))
print("errno", called, ctypes.get_errno(), flush=True)
"""
UNKNOWN = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
print("result", libc.syscall(110), ctypes.get_errno(), flush=True)
"""


def test_render_nodes_are_refused(daemon: Daemon, base: Path) -> None:
    """A sliced container's calls on /dev/dri, and mappings of it, are refused."""
    node = base / "renderD128"
    os.mknod(node, 0o20666, os.makedev(DRM_MAJOR, RENDER_NODE))
    first = daemon.slice(1, ONE, "hold", until="hold")
    printed = daemon.join(first, "/usr/bin/python3", "-c", ON_NODE, str(node)).finish()
    assert printed == f"errno {errno.EPERM} {errno.EPERM}\n"
    eventually(lambda: "calls on device 226:128 are refused" in daemon.log(), "nothing was logged")
    first.finish()


def test_unknown_calls_are_refused(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """A notified call that cgpud does not know does not go on."""
    monkeypatch.setenv("SLICED_ALSO", str(SYS_GETPPID))
    first = daemon.slice(2, ONE, "hold", until="hold")
    printed = daemon.join(first, "/usr/bin/python3", "-c", UNKNOWN).finish()
    assert printed == f"result -1 {errno.ENOSYS}\n"
    known = f"container {long_id(2)}: system call {SYS_GETPPID} of architecture"
    eventually(lambda: known in daemon.log(), "nothing was logged")
    first.finish()
