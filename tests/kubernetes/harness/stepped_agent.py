# SPDX-License-Identifier: Apache-2.0
"""The agent of a node, which is killed or stopped right before one of the changes that it makes for claims.

Such changes are: to open a file for writing, the engine's `inst_ctl` among them, to put one in place, to
remove one. Python tells an audit hook of them, so nothing of it is in the agent.

usage: python -m tests.kubernetes.harness.stepped_agent NUMBER SIGNAL TRACE [ARGUMENTS OF THE AGENT]
"""

from __future__ import annotations

import os
import signal
import sys

from cgpu.kubernetes.node.main import main

WATCHED = ("/gpu.opencgpu.io/claims/", "/run/cgpu/shares/", "opencgpu-share-", "/inst_ctl")
PASSED = ("/claims/lock", "/shares/asks")
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
NAMES = {"open": "write", "os.rename": "place", "os.remove": "remove"}


class Steps:
    """Counts the changes, and writes each into the trace."""

    def __init__(self, number: int, sent: signal.Signals, trace: str) -> None:
        self._number = number
        self._sent = sent
        self._trace = os.open(trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._count = 0

    def hook(self, event: str, arguments: tuple[object, ...]) -> None:
        """Be told of an event. The path of what is put in place is its second argument."""
        if event not in NAMES:
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & WRITES):
            return
        path = str(arguments[1 if event == "os.rename" else 0])
        if any(word in path for word in PASSED) or not any(word in path for word in WATCHED):
            return
        self._count += 1
        os.write(self._trace, f"{self._count} {NAMES[event]} {path}\n".encode())
        if self._count == self._number:
            os.kill(os.getpid(), self._sent)


if __name__ == "__main__":
    sys.addaudithook(Steps(int(sys.argv[1]), signal.Signals[sys.argv[2]], sys.argv[3]).hook)
    sys.exit(main(sys.argv[4:]))
