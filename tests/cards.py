# SPDX-License-Identifier: Apache-2.0
"""Made-up readings of cards."""

from __future__ import annotations

from cgpu.client.cards import Card, Container
from cgpu.client.scheduling import parse
from cgpu.client.stat import parse_gpu
from tests.exporter.trees import gpu_line
from tests.policies import policies

UUID = "GPU-00000000-1111-2222-3333-444444444444"
SCHED = parse("divided_by=time_slices usage_from=gates resolution=50000 slice=2000000")


def card(*slices: str, at: float = 0.0, index: int = 0, uuid: str = UUID, **figures: int) -> Card:
    """Return a card with these slices, which are lines of an entry `stat`. at: when it was read."""
    stat = parse_gpu("\n".join((gpu_line(uuid, **{"policy": 1, **figures}), *slices)))
    containers = tuple(map(Container, stat.slices))
    rule = policies()[stat.policy]
    return Card(index, "Tesla T4", index, stat, containers, SCHED, rule, read_at=at)
