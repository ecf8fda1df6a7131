# SPDX-License-Identifier: Apache-2.0
"""The log of a guest's kernel, and faults in it."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass

SYNC_MARK = "agent: sync"  # the agent's, see there
CONTEXT = 40  # records after a fault that belong to its report

# First lines of the reports of everything in the kernel that looks for mistakes.
FAULT = re.compile(
    r"WARNING: |BUG: |BUG at |BUG \S+ \(|Oops|Kernel panic|(?<!\] )general protection fault"
    r"|[Uu]nable to handle|Internal error: "
    r"|divide error:|invalid opcode:|stack segment:|double fault"
    r"|rcu: INFO: |rcu_\w+ (?:self-)?detected|INFO: task .* blocked|INFO: possible|INFO: inconsistent"
    r"|INFO: trying to register|possible \S+ (?:\S+ )?(?:locking|dependency|deadlock)|inconsistent lock state"
    r"|suspicious RCU usage|KASAN: |UBSAN: |KCSAN: |kmemleak: \d+ new|ODEBUG: |refcount_t: "
    r"|list_(?:add|del) corruption|soft lockup|hard LOCKUP|sleeping function called|scheduling while atomic"
    r"|still has locks held|lock held when returning|bad unlock balance|held lock freed|DEBUG_LOCKS_WARN_ON"
    r"|workqueue: .* leaked|Objects remaining in|Trying to vfree"
)
# NVIDIA's driver initialises all its spin locks at one place of its source: lockdep takes two of them, one
# locked inside the other, for the same. lockdep is off after its first report.
ONE_CLASS = re.compile(r"possible recursive locking")
LOCKED_AT = re.compile(r"\bat: (?!os_acquire_spinlock\+\S+ \[nvidia\])")
LOCK_LINES = 8  # of the report: the lock that is wanted, and the one that is held


@dataclass(frozen=True)
class Record:
    """One message of the kernel."""

    level: int
    sequence: int
    seconds: float
    text: str

    @classmethod
    def parse(cls, raw: str) -> Record:
        head, _, rest = raw.partition(";")
        priority, sequence, microseconds = head.split(",")[:3]
        # Lines behind the first that start with a space are properties of the device that spoke.
        first, *others = rest.splitlines() or [""]
        text = "\n".join([first, *(line for line in others if not line.startswith(" "))])
        return cls(int(priority) & 7, int(sequence), int(microseconds) / 1e6, text)

    def __str__(self) -> str:
        return f"[{self.seconds:12.6f}] {self.text}"


def nvidia_locks(records: list[Record]) -> bool:
    """Say whether a report is lockdep's of two locks of NVIDIA's driver, which it cannot tell apart."""
    texts = [record.text for record in records]
    locks = [text for text in texts if " at: " in text]
    return bool(ONE_CLASS.search(texts[0])) and len(locks) == 2 and not any(map(LOCKED_AT.search, locks))


class KernelLog:
    """All messages of one guest, in order."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.lock = threading.Lock()
        self.checked = 0

    def add(self, payload: bytes) -> None:
        texts = payload.decode(errors="replace").split("\0")
        records = [Record.parse(text) for text in texts if text]
        with self.lock:
            self.records += [record for record in records if record.text != SYNC_MARK]

    def text(self, start: int = 0) -> str:
        """Return the messages from the given one on, as dmesg prints them."""
        with self.lock:
            return "\n".join(map(str, self.records[start:]))

    def check(self) -> list[str]:
        """Return the faults since the last check, each with its report."""
        with self.lock:
            records, self.checked = self.records[self.checked :], len(self.records)
        found, after = [], 0
        for number, record in enumerate(records):
            if number < after or not FAULT.search(record.text):
                continue
            after = number + CONTEXT
            if nvidia_locks(records[number : number + LOCK_LINES]):
                continue
            found.append("\n".join(map(str, records[number:after])))
        return found
