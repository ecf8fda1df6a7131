# SPDX-License-Identifier: Apache-2.0
"""The driver's open files, sent by a container to a process without a slice: figures of its memory."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.attacks.build import client
from tests.daemon.conftest import MakeDaemon
from tests.daemon.harness import MIB
from tests.integration.commands import eventually

LIMIT = 1000 * MIB
PIECE = 8 << 30  # once on the card
REFUSE = "context_memory: 0\ndrift_reaction: refuse\n"
SAID = "and is in no slice, by files of the driver that were opened in another container"


@contextmanager
def outside(*command: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Run a program in no slice until it has taken what it can."""
    with subprocess.Popen(
        list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        while line := process.stdout.readline():
            if line.startswith("took"):
                break
        assert line, "it ended before it had anything"
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.enforcement
def test_memory_by_files_of_a_container_is_drift(make_daemon: MakeDaemon, base: Path) -> None:
    """With drift_reaction: refuse nothing more is given of the card while a process has such memory."""
    daemon = make_daemon(config=REFUSE)
    place = base / "handed"
    giver = daemon.slice(1, f"gpu=0:{LIMIT}", "give", str(place), program=client("hand_out"), until="giving")
    other = daemon.slice(2, f"gpu=0:{LIMIT}", "alloc=1M", "count", "hold", until="count")
    with outside(client("hand_out"), "--dev", daemon.run / "sim", "take", place, str(PIECE), "4096") as taker:
        eventually(lambda: "nothing more is given of it" in daemon.log(), "nothing was said")
        assert f"GPU 0: process {taker.pid} has {PIECE} bytes, {SAID}" in daemon.log()
        assert "0 processes outside of containers; nothing more is given" in daemon.log()
        daemon.enter(other, "expect=0x51", "alloc=1M").succeeds()
    # The files keep it until the last of both has closed them.
    giver.finish("\n")
    eventually(lambda: "within drift_tolerance again" in daemon.log(), "it does not end")
