# SPDX-License-Identifier: Apache-2.0
"""A server under test, and helpers of its tests."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.integration.commands import Outcome, call
from tests.sim.abi import HEAP_FREE, HEAP_SIZE, KIB, Layout, layout
from tests.sim.client import Client

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = REPOSITORY / "kmod" / "build"


@dataclass
class Sim:
    """A running server of simulated cards."""

    mount: Path
    process: subprocess.Popen[bytes]
    version: str

    def layout(self, name: str) -> Layout:
        return layout(name, self.version)

    def open(self, node: str = "nvidiactl") -> int:
        return os.open(self.mount / node, os.O_RDWR | os.O_CLOEXEC)

    def client(self, card: int = 0) -> Client:
        """Return a client with a device and a subdevice on a card."""
        return Client(self, self.open(), card)

    def probe(self, *words: str) -> Outcome:
        """Run the probe to its end."""
        return call([BUILD / "cgpu-probe", "--dev", self.mount, *words])

    def used(self, card: int = 0) -> int:
        """Return the bytes a card has given out, asked by a client of its own."""
        with self.client(card) as client:
            total, free = client.fb_info(HEAP_SIZE, HEAP_FREE)
            return (total - free) * KIB

    def settles(self, card: int, expected: int) -> bool:
        """Wait until a card has given out this much: the kernel reports a last close a moment later."""
        for _ in range(200):
            if self.used(card) == expected:
                return True
            time.sleep(0.02)
        return False

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=240)


def listed() -> dict[str, tuple[int, str]]:
    """Return MIB and name of each model."""
    command = [str(BUILD / "cgpu-sim"), "--list"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return {key: (int(mib), name) for key, mib, name in rows}
