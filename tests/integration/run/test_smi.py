# SPDX-License-Identifier: Apache-2.0
"""cgpu-smi shows slices on a simulated card as they are."""

from __future__ import annotations

import csv
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from subprocess import DEVNULL

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


def rows(*words: str) -> list[dict[str, str]]:
    text = must([SMI, *words, "--format=csv,nounits"]).stdout
    return list(csv.DictReader(text.splitlines(), skipinitialspace=True))


def value(row: dict[str, str], name: str) -> str:
    (found,) = [text for key, text in row.items() if key.partition(" ")[0] == name]
    return found


def probe_of(process: psutil.Process) -> psutil.Process:
    """Return the probe among a command and what it has started."""
    (found,) = [one for one in (process, *process.children(recursive=True)) if one.name() == "cgpu-probe"]
    return found


def test_memory(engine: Engine) -> None:
    """A slice with 40 % of its memory in use shows 40 %, its peak, its refusals and its process."""
    with slice_of(["--mem", f"{LIMIT}M"], *WORDS, "hold=1000") as process:
        query = f"--query-slices={','.join(FIELDS)}"
        eventually(lambda: [value(one, "refused") for one in rows(query)] == ["2"], "both are refused", 60)
        (row,) = rows(query)
        assert {name: value(row, name) for name in FIELDS} == FIELDS
        eventually(lambda: engine.card_used() == USED * MIB, "the card says so, too", 60)
        (name,) = engine.instances()
        assert engine.used("0", name) == USED * MIB
        found = probe_of(process)
        text = must([SMI]).stdout
        assert f"|   0  {name:<21} |    {USED}MiB /  {LIMIT}MiB |" in text
        assert f"|      {'-':<21} |  40%          {PEAK}MiB |    1                  2 |" in text
        assert f"|    0   {name:<12} {found.pid:>10}    N/A   {'cgpu-probe':<23} {USED:>7}MiB  |" in text
        eventually(lambda: gpu_memory() == card(engine), "the card's own figures", 60)
        details = must([SMI, "-q"]).stdout
        assert f"Process ID {found.pid}\n" in details
        assert re.search("Used Of Total +: 40 %\n", details)


FIELDS = {
    "gpu_index": "0",
    "memory.total": f"{LIMIT}",
    "memory.used": f"{USED}",
    "memory.free": f"{LIMIT - USED}",
    "memory.peak": f"{PEAK}",
    "memory.used_percent": "40.0",
    "weight": "1",
    "high_priority": "Disabled",
    "processes": "1",
    "refused": "2",
    "refused.limit": "2",
    "refused.card": "0",
}


def gpu_memory() -> tuple[str, ...]:
    (row,) = rows(
        "--query-gpu=memory.total,memory.used,memory.free,memory.promised,places.taken,slices.count"
    )
    return tuple(row.values())


def card(engine: Engine) -> tuple[str, ...]:
    """Return the same as the tree says."""
    total, free = (int(engine.read(f"0/{name}")) // MIB for name in ("memtotal", "memfree"))
    return (str(total), str(total - free), str(free), str(LIMIT), "1", "1")
