# SPDX-License-Identifier: Apache-2.0
"""Who may write to the tree: CAP_SYS_ADMIN in the initial user namespace."""

from __future__ import annotations

import errno
import os
import re

from cgpu.files import read_bounded

CAP_SYS_ADMIN = 21
STATUS_MAX = 1 << 16
_EFFECTIVE = re.compile(rb"^CapEff:\s*([0-9a-f]{16})$", re.MULTILINE)


def has_capability(status: bytes, capability: int) -> bool:
    """Tell from the text of /proc/PID/status whether a capability is effective."""
    found = _EFFECTIVE.search(status)
    return found is not None and bool(int(found.group(1), 16) >> capability & 1)


def check_writer(pid: int) -> None:
    """Raise OSError, EPERM, unless a thread may write."""
    if not may_write(pid):
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))


def may_write(pid: int) -> bool:
    """Tell whether a thread may write. A thread that cannot be looked at may not."""
    if pid <= 0:
        return False
    try:
        status = read_bounded(f"/proc/{pid}/status", STATUS_MAX)
        same = os.path.samefile(f"/proc/{pid}/ns/user", "/proc/self/ns/user")
    except OSError:
        return False
    return same and has_capability(status, CAP_SYS_ADMIN)
