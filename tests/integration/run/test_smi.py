# SPDX-License-Identifier: Apache-2.0
"""cgpu-smi shows slices on a simulated card as they are."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from subprocess import DEVNULL
from typing import Any

import psutil

from tests.integration.commands import eventually, must
from tests.integration.engine import CGPU, MIB, SMI, Engine
from tests.integration.images import PROBE

LIMIT, USED, PEAK = 1000, 400, 600  # MiB
# 600 MiB and back, then 400 MiB, then more than there is left.
WORDS = [
    f"alloc={PEAK}M",
    "free",
    f"alloc={USED}M",
    "expect=0x51",
    "alloc=700M",
    "expect=0x51",
    "alloc=800M",
]


@contextmanager
def slice_of(options: Sequence[str], *words: str) -> Iterator[psutil.Process]:
    """Have a probe run in a slice; give its process, which holds the memory."""
    command = [str(CGPU), "run", *options, "--", str(PROBE), *words]
    with subprocess.Popen(command, stdin=DEVNULL, stdout=DEVNULL) as started:
        try:
            yield psutil.Process(started.pid)
        finally:
            started.terminate()


def gpu() -> dict[str, Any]:
    """Return the only GPU."""
    (found,) = json.loads(must([SMI, "--json"]).stdout)["gpus"]
    return dict(found)


def refusals() -> int:
    """Return how many calls of all slices were refused."""
    return sum(sum(one["refused"].values()) for one in gpu()["containers"])


def probe_of(process: psutil.Process) -> psutil.Process:
    """Return the probe among a command and what it has started."""
    (found,) = [one for one in (process, *process.children(recursive=True)) if one.name() == "cgpu-probe"]
    return found


def test_memory(engine: Engine) -> None:
    """A slice with 40 % of its memory in use shows 40 %, its peak, its refusals and its process."""
    with slice_of(["--mem", f"{LIMIT}M"], *WORDS, "hold=1000") as process:
        eventually(lambda: refusals() == 2, "both are refused", 60)
        (row,) = gpu()["containers"]
        assert {name: row[name] for name in FIELDS} == FIELDS
        assert (row["refused"]["limit"], row["refused"]["card"]) == (2, 0)
        eventually(lambda: engine.card_used() == USED * MIB, "the card says so, too", 60)
        (name,) = engine.instances()
        assert engine.used("0", name) == USED * MIB
        found = probe_of(process)
        text = must([SMI]).stdout
        assert f"|   0  {name:<21} |    {USED}MiB /  {LIMIT}MiB |" in text
        assert f"|      {'-':<21} |  40%          {PEAK}MiB |    1                  2 |" in text
        assert f"|    0   {name:<12} {found.pid:>10}    N/A   {'cgpu-probe':<23} {USED:>7}MiB  |" in text
        assert row["pids"] == [found.pid]
        eventually(lambda: gpu_memory() == card(engine), "the card's own figures", 60)


FIELDS = {
    "memory_allocated_bytes": LIMIT * MIB,
    "memory_used_bytes": USED * MIB,
    "memory_peak_bytes": PEAK * MIB,
    "weight": 1,
    "high_priority": False,
}


def gpu_memory() -> tuple[int, ...]:
    now = gpu()
    sizes = (now[f"memory_{one}_bytes"] for one in ("total", "used", "free", "promised"))
    return (*sizes, now["places_taken"], len(now["containers"]))


def card(engine: Engine) -> tuple[int, ...]:
    """Return the same as the tree says."""
    total, free = (int(engine.read(f"0/{name}")) for name in ("memtotal", "memfree"))
    return (total, total - free, free, LIMIT * MIB, 1, 1)
