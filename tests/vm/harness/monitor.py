# SPDX-License-Identifier: Apache-2.0
"""The emulator's monitor: state of a guest that does not answer."""

from __future__ import annotations

import contextlib
import re
import socket

ANSWER_SECONDS = 3.0  # after which the emulator is taken to have said all
# An unexpected interrupt that cannot be masked is a panic. A panic prints the stacks of all processors (64)
# and of all tasks (1).
PANIC_ARGUMENTS = ("unknown_nmi_panic", "panic_print=65")
TASK = re.compile(r"task:\S.* state:(?P<state>\S)")
AFTER_TASKS = "Sched Debug Version"
AT_WORK = "RD"  # states of tasks that run, want to, or wait without regard to signals


class Monitor:
    """A connected socket to QEMU's human monitor."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection

    def ask(self, command: str) -> str:
        """Return what the emulator answers to a command; "" where it is gone or does not answer."""
        said = bytearray()
        with contextlib.suppress(OSError):
            self.connection.settimeout(ANSWER_SECONDS)
            self.connection.sendall(f"{command}\n".encode())
            while data := self.connection.recv(1 << 16):
                said += data
        return said.decode(errors="replace").replace("\r", "")

    def panic(self) -> str:
        """Have the kernel panic and so tell its console what it is at; return the processors' registers."""
        registers = self.ask("info registers -a")
        self.ask("nmi")
        return "\n".join(line for line in registers.splitlines() if line.startswith(("CPU#", "R")))

    def close(self) -> None:
        self.connection.close()


def what_is_at_work(console: list[str]) -> list[str]:
    """Return a panic's lines, of its list of tasks those that are not asleep."""
    kept, keep = [], False
    for line in console:
        if AFTER_TASKS in line:
            break
        task = TASK.search(line)
        keep = task["state"] in AT_WORK if task else keep or "Kernel panic" in line
        if keep:
            kept.append(line)
    return kept
