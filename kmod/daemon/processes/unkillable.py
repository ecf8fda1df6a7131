# SPDX-License-Identifier: Apache-2.0
"""Processes that were killed and cannot end: a thread waits in the kernel, where no signal reaches it.

A container can bring that about with memory of a file system of its own that never answers. Such a process
does nothing any more, but neither its parent nor its locks hear of its end.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cgpu.kmod.daemon.processes.process_identity import ProcessIdentity

UNKILLABLE_S = 2.0  # a process that was killed has so long to end


def is_unkillable(process: ProcessIdentity) -> bool:
    """Tell whether a process has ended but for threads that cannot; not another one with its number.

    cgpud's first thread ends with it, never before. One that nobody has waited for yet has no other thread.
    """
    try:
        with open(f"/proc/{process.pid}/stat", "rb") as stream:
            state = stream.read(4096).rpartition(b") ")[2][:1]
        rest = len(os.listdir(f"/proc/{process.pid}/task"))
        return state in {b"Z", b"X"} and rest > 1 and process.is_meant()
    except OSError:
        return False
