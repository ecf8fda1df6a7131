# SPDX-License-Identifier: Apache-2.0
"""Recording in tests, and small questions about traces."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cgpu.trace.format import Event, Params, Trace, load
from tests.integration.commands import Outcome, call
from tests.sim.support import BUILD

CGPU = Path(sys.executable).with_name("cgpu")
RECORDER = BUILD / "cgpu-recorder"
MIB = 1 << 20

Words = Sequence[str | Path]


@dataclass(frozen=True)
class Recorder:
    """Records programs on the nodes of one folder into one file."""

    mount: Path
    file: Path

    def command(self, words: Words, *options: str) -> list[str]:
        """Return the command line that records a command."""
        base = [CGPU, "trace", "record", "-o", self.file, "--dev", self.mount, *options, "--"]
        return [str(word) for word in (*base, *words)]

    def run(self, words: Words, *options: str) -> Outcome:
        return call(self.command(words, *options), timeout=120)

    def probe(self, *words: str, bits: int = 64) -> Trace:
        """Record the probe, which must do what was asked, and return the trace."""
        program = BUILD / ("cgpu-probe" if bits == 64 else "cgpu-probe32")
        done = self.run([program, "--dev", self.mount, *words])
        assert done.returncode == 0, done.stdout + done.stderr
        return load(self.file)

    def python(self, source: str, *words: str) -> Trace:
        """Record a few lines of Python, which must end well; MOUNT is the folder of the nodes."""
        text = f"import os, sys\nMOUNT = {str(self.mount)!r}\n{source}"
        done = self.run([sys.executable, "-I", "-c", text, *words])
        assert done.returncode == 0, done.stdout + done.stderr
        return load(self.file)


def calls(trace: Trace, name: str) -> list[Event]:
    return [event for event in trace.events if event.call == name]


def parameters(event: Event) -> Params:
    """Return the parameters of an event that has some."""
    assert event.params is not None
    return event.params


def memory(trace: Trace) -> list[Event]:
    """Return the allocations of card memory by RM_ALLOC."""
    return [event for event in calls(trace, "NV_ESC_RM_ALLOC") if event.given["hClass"] == 0x40]
