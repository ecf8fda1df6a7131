# SPDX-License-Identifier: Apache-2.0
"""Processes that were killed and cannot end: a thread waits in the kernel, where no signal reaches it.

A container can bring that about with memory of a file system of its own that never answers. Such a process
does nothing any more, but neither its parent nor its locks hear of its end.
"""

from __future__ import annotations

import os

UNKILLABLE_S = 2.0  # a process that was killed has so long to end


def is_unkillable(pid: int) -> bool:
    """Tell whether a process has ended but for threads that cannot.

    cgpud's first thread ends with it, never before. One that nobody has waited for yet has no other thread.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as stream:
            state = stream.read(4096).rpartition(b") ")[2][:1]
        return state in {b"Z", b"X"} and len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False
