# SPDX-License-Identifier: Apache-2.0
"""A shell at a terminal, to which keys are sent."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Sequence

PROMPT = "ready> "
WAIT_S = 20.0


class Shell:
    """An interactive shell in which `cgpu`, and what else is completed, only say what they were given."""

    def __init__(self, command: Sequence[str], setup: str) -> None:
        """Start it and have it run some lines."""
        self._terminal, inner = pty.openpty()
        environment = {"PATH": "/usr/bin:/bin", "TERM": "dumb", "LANG": "C.UTF-8", "COLUMNS": "200"}
        self._process = subprocess.Popen(
            command, stdin=inner, stdout=inner, stderr=inner, env=environment, start_new_session=True
        )
        os.close(inner)
        try:
            self.keys(f"PS1='ready''> '; {setup}\n")
        except BaseException:
            self.end()
            raise

    def keys(self, text: str) -> str:
        """Send keys and return what the terminal shows until the next prompt."""
        os.write(self._terminal, text.encode())
        shown = ""
        deadline = time.monotonic() + WAIT_S
        while PROMPT not in shown.partition("\n")[2]:
            left = deadline - time.monotonic()
            assert left > 0, f"no prompt after {text!r}: {shown!r}"
            if select.select([self._terminal], [], [], left)[0]:
                shown += os.read(self._terminal, 65536).decode(errors="replace")
        return shown

    def completed(self, keys: str) -> str:
        """Return the arguments that a command gets whose line is completed with the tab key."""
        found = re.findall(r"^GOT:(.*?)\s*$", self.keys(f"{keys}\t\n"), re.MULTILINE)
        assert len(found) == 1
        return str(found[0])

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)
