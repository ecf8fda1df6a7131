# SPDX-License-Identifier: Apache-2.0
"""Parts of the tests of clients: machines, processes that hold memory, nvidia-smi's output as values."""

from __future__ import annotations

import csv
import io
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.nvidia.archive import RELEASES
from tests.nvidia.containers import SLICE, ClientRunc, Node, node
from tests.nvidia.software import software
from tests.sim.abi import facts

COMPUTE = facts()["classes"]["TURING_COMPUTE_A"]["id"]
LIMIT = 6043  # MiB of SLICE
OWN = 100  # MiB that the process of `beside` holds
# MiB that clients have for it in a container, in a slice and without one: drivers before 565.57.01 take the
# host's number of a process when they are asked what it holds, and list the container's.
BY_PROCESS = 0
OTHERS = 700  # and another container
HOLD = "hold=86400"  # seconds: until its container is ended
VERSIONS = tuple(each.version for each in RELEASES)


def packages() -> None:
    """Fetch what nvidia-smi takes, of each release. Raises NotInArchiveError."""
    for version in VERSIONS:
        software(version)


def computing(mib: int) -> str:
    """Return the probe's words to have so much, as a process that computes."""
    return f"/cgpu-probe alloc={mib}M class={COMPUTE:#x}"


def alongside(words: str, script: str) -> str:
    """Return lines of shell that run a script once the probe, by these words, has memory; they end as one."""
    held = "/dev/shm/held"
    ended = f"kill -0 $! || {{ cat {held}; exit 1; }}"
    return f"{words} {HOLD} >{held} 2>&1 & until grep -q ^hold {held}; do {ended}; sleep 0.02; done; {script}"


def beside(script: str, mib: int = OWN) -> str:
    """Return lines of shell that run a script while a process of the same container holds memory."""
    return alongside(computing(mib), script)


def run(runc: ClientRunc, script: str) -> str:
    """Run lines of shell in a container of a kind; they must end well. Returns what was printed."""
    outcome = runc.shell(script, SLICE if runc.directory.name == "sliced" else {})
    assert outcome.returncode == 0, outcome.text
    return outcome.stdout


@contextmanager
def machine(version: str, cards: str = "T4", more: Sequence[Path] = (), **config: object) -> Iterator[Node]:
    """Have a machine of a release, on which a container without a slice holds memory."""
    base = Path(tempfile.mkdtemp(prefix="nvidia-"))
    try:
        with node(base, version, cards, more, **config) as made:
            started = made.plain.start("other", ["/bin/sh", "-c", f"exec {computing(OTHERS)} {HOLD}"], {})
            assert started.returncode == 0, started.text
            yield made
    finally:
        shutil.rmtree(base, ignore_errors=True)


@pytest.fixture(scope="module", params=VERSIONS)
def box(request: pytest.FixtureRequest) -> Iterator[Node]:
    with machine(request.param) as made:
        yield made


def details(text: str) -> dict[str, str]:
    """Return the values of `nvidia-smi -q` by their headings, joined by slashes; the time is left out."""
    found: dict[str, str] = {}
    above: list[tuple[int, str]] = []
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped or stripped.startswith("="):
            continue
        depth = len(line) - len(line.lstrip())
        name, colon, value = (part.strip() for part in stripped.partition(" : "))
        above = [(at, heading) for at, heading in above if at < depth]
        if not colon:
            above.append((depth, name))
        elif name != "Timestamp":
            found["/".join([*(heading for _, heading in above[1:]), name])] = value
    return found


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text), skipinitialspace=True))
