# SPDX-License-Identifier: Apache-2.0
"""Memory that the driver takes for contexts: charged by an estimate, and drift where that is wrong."""

from __future__ import annotations

import pytest

from tests.daemon.conftest import Hold, MakeDaemon
from tests.daemon.harness import MIB, Daemon, piped
from tests.integration.commands import eventually

LIMIT = 1000 * MIB
SLICE = f"gpu=0:{LIMIT}"
EACH = 96 * MIB  # what is charged
REAL = 22 * MIB  # what a simulated T4 takes
NO_MEMORY = "expect=0x51"


def run(daemon: Daemon, *words: str) -> str:
    """Run the probe to its end in a slice; every word must answer as it is expected to."""
    return daemon.slice(1, SLICE, *words).succeeds()


def drift(daemon: Daemon, gpu: int = 0) -> int:
    """Return what a card is short of beyond what is charged."""
    return int(daemon.read(f"{gpu}/drift"))


def test_an_estimate_that_is_too_high_shows(daemon: Daemon, holding: Hold) -> None:
    """As less than nothing; with the context it goes."""
    sliced = holding(daemon, SLICE, "context=3", "alloc=100M:64k")
    eventually(lambda: drift(daemon) == 3 * (REAL - EACH), "the drift is another one")
    sliced.finish("\n")
    eventually(lambda: drift(daemon) == 0, "the drift stays")


TOLERANCE = f"context_memory: 0\ndrift_tolerance: {2 * REAL}\n"


def test_contexts_need_not_be_charged(make_daemon: MakeDaemon, holding: Hold) -> None:
    """Memory of contexts is drift then; a little of it is tolerated, and lasting drift is said once."""
    daemon = make_daemon(config=TOLERANCE)
    sliced = holding(daemon, SLICE, "context=2", f"alloc={LIMIT - MIB}:64k")
    eventually(lambda: drift(daemon) == 2 * REAL, "the drift is another one")
    third = daemon.enter(sliced, "context", "count", "hold", until="count")
    assert daemon.used(sliced) == LIMIT - MIB
    eventually(lambda: f"drift {3 * REAL} bytes" in daemon.log(), "nothing was said")
    assert "reported only; who has it: nvidia-smi" in daemon.log()
    daemon.enter(sliced, "alloc=1M:64k").finish()
    third.finish("\n")
    eventually(lambda: "drift is within drift_tolerance again" in daemon.log(), "its end was not said")
    assert daemon.log().count(f"drift {3 * REAL} bytes") == 1


@pytest.mark.enforcement
def test_drift_can_end_what_is_given(make_daemon: MakeDaemon, holding: Hold) -> None:
    """drift_reaction: refuse gives nothing more of that card; other cards, and given memory, stay."""
    daemon = make_daemon("T4:2", TOLERANCE + "drift_reaction: refuse\n")
    sliced = daemon.slice(3, f"gpu=0:{LIMIT} gpu=1:{LIMIT}", "context=3", "alloc=1M", "count", "hold")
    sliced.line("count")
    eventually(lambda: "nothing more is given of it" in daemon.log(), "nothing was said")
    refused = (NO_MEMORY, "alloc=1M", NO_MEMORY, "context", "expect-errno=12", "managed=2M")
    daemon.enter(sliced, *refused, "gpu=1", "alloc=1M").succeeds()
    sliced.finish("\n")
    eventually(lambda: "within drift_tolerance again" in daemon.log(), "it does not end")
    run(daemon, "alloc=1M", "context")


def test_others_are_not_drift(make_daemon: MakeDaemon, holding: Hold) -> None:
    """Memory of a process outside is taken off, and nothing is refused for what it may have besides."""
    daemon = make_daemon(config=TOLERANCE + "drift_reaction: refuse\n")
    holding(daemon, SLICE, "alloc=1M")
    with piped(daemon.outside("context=4", "alloc=500M:64k", "count", "hold")) as outside:
        assert outside.stdin is not None
        eventually(lambda: drift(daemon) == 4 * REAL, "the drift is another one")
        eventually(
            lambda: "1 processes outside of containers; reported only" in daemon.log(), "nothing was said"
        )
        run(daemon, "alloc=1M")
        outside.stdin.close()
    assert "opened in another container" not in daemon.log()
    eventually(lambda: drift(daemon) == 0, "the drift stays")
