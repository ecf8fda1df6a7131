# SPDX-License-Identifier: Apache-2.0
"""Managed memory is charged by what is mapped: on each of the container's GPUs, as long as it is mapped."""

from __future__ import annotations

import errno

from tests.daemon.conftest import Hold, MakeDaemon
from tests.daemon.harness import MIB, Daemon
from tests.integration.commands import eventually

LIMIT = 1000 * MIB
SLICE = f"gpu=0:{LIMIT}"
TOO_MUCH = f"expect-errno={errno.ENOMEM}"
NO_MEMORY = "expect=0x51"


def run(daemon: Daemon, *words: str, gpus: str = SLICE) -> None:
    """Run the probe to its end in a slice; every word must answer as it is expected to."""
    daemon.slice(1, gpus, *words).succeeds()


def test_threads_and_children_share_the_limit(daemon: Daemon, holding: Hold) -> None:
    """Each process is charged for its own, and gives it back with its end."""
    first = holding(daemon, SLICE, "managed=600M")
    second = daemon.enter(first, TOO_MUCH, "managed=402M", "managed=400M", "count", "hold", until="count")
    assert daemon.used(first) == LIMIT
    info = daemon.enter(first, "info").finish()
    assert f"free=0 used={LIMIT}" in info
    second.kill()
    eventually(lambda: daemon.used(first) == 600 * MIB, "it was not given back")
    assert f"Mem: {600 * MIB}\n" in daemon.read(f"0/{first.id[:12]}/meminfo")


def test_every_gpu_is_charged(daemon: Daemon) -> None:
    """The driver may move it to each of them."""
    gpus = f"gpu=0:{LIMIT} gpu=1:{100 * MIB}"
    run(daemon, TOO_MUCH, "managed=102M", "managed=100M", "gpu=1", NO_MEMORY, "alloc=64K:64k", gpus=gpus)


def test_it_can_be_forbidden(make_daemon: MakeDaemon) -> None:
    """managed_memory: false refuses the mapping; allocations go on."""
    daemon = make_daemon(config="managed_memory: false\n")
    run(daemon, f"expect-errno={errno.EPERM}", "managed=2M", "alloc=1000M:64k")
