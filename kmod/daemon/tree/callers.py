# SPDX-License-Identifier: Apache-2.0
"""Callers that may write to the tree: those with CAP_SYS_ADMIN in the initial user namespace."""

from __future__ import annotations

import ctypes
import errno
import functools
import os

from cgpu import peers

CAP_SYS_ADMIN = 21
VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3 of linux/capability.h


class _Header(ctypes.Structure):
    """struct __user_cap_header_struct."""

    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    """struct __user_cap_data_struct, of which there are two."""

    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def effective_capabilities(pid: int) -> int:
    """Return a thread's effective capabilities, one bit each. Raises OSError. See capget(2)."""
    sets = (_Sets * 2)()
    if _libc().capget(ctypes.byref(_Header(VERSION, pid)), sets) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(sets[0].effective) | int(sets[1].effective) << 32


def check_writer(pid: int) -> None:
    """Raise OSError, EPERM, unless a thread may write."""
    if not may_write(pid):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def may_write(pid: int) -> bool:
    """Tell whether a thread may write. A thread that cannot be looked at may not."""
    if pid <= 0:
        return False
    try:
        has = bool(effective_capabilities(pid) >> CAP_SYS_ADMIN & 1)
        return has and peers.namespace_of(pid, "user") == peers.own_namespaces()["user"]
    except OSError:
        return False


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)
