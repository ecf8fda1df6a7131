# SPDX-License-Identifier: Apache-2.0
"""The witness beside cgpud, whose threads take a container's pages: the container's own tasks take none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.engine import MIB
from tests.vm.nvidia.daemon import GuestDaemon, running
from tests.vm.nvidia.witness import SECONDS, GuestWitness, begin_witness

__all__ = ["running"]

pytestmark = [pytest.mark.real_driver, pytest.mark.two_cpus]

LIMIT = 512 * MIB
WORDS = ("alloc=256M", "alloc=1M:64k", "group", "context", "managed=64M", "dup", "export")
MEMORY = 257 * MIB
THREADS = """
for name in $(grep -laz cgpud /proc/[0-9]*/cmdline); do
	ls "${name%/cmdline}/task" 2>/dev/null || true
done
"""


@pytest.fixture(scope="module")
def watched(running: GuestDaemon) -> Iterator[GuestWitness]:
    made = begin_witness(running.machine)
    yield made
    running.clear()
    assert made.process.finish(SECONDS).returncode == 0


def test_judged_calls(running: GuestDaemon, watched: GuestWitness) -> None:
    """Memory, groups, managed memory, exports: what is judged is taken by cgpud and UVM alone."""
    watched.watch("judged")
    held = running.hold(*WORDS, size=LIMIT, name="judged")
    assert watched.of("judged") == 0
    held.stop()


def test_threads_that_act_for_a_container(running: GuestDaemon, watched: GuestWitness) -> None:
    """Pages that a thread of cgpud takes are the container's for which it makes the call, until freed."""
    watched.watch("served")
    tasks = running.machine.shell(THREADS).stdout.split()
    for place, task in enumerate(tasks):
        watched.ask(f"worker {place} {task}")
        watched.ask(f"act {place} {watched.owners['served']}")
    held = running.hold(*WORDS, size=LIMIT, name="served")
    assert MEMORY <= watched.of("served") < MEMORY + 16 * MIB
    for place in range(len(tasks)):
        watched.ask(f"act {place} 0")
    held.stop()
    running.await_empty()
    assert watched.of("served") == 0
