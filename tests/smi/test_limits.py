# SPDX-License-Identifier: Apache-2.0
"""Compute limits and utilisation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cgpu.smi.limits import utilisation, with_limits, with_utilisation
from cgpu.smi.model import Container, Gpu

IDLE = Container("a", "a", weight=1, high_prio=False, allocated=1, used=0, pids=(), engine_time=0)
BUSY = replace(IDLE, directory="b", id="b", weight=3, pids=(7,))
HIGH = replace(IDLE, directory="c", id="c", high_prio=True)
CARD = Gpu(0, "GPU-1", "Tesla T4", policy=1, max_inst=20, prio_ratio=80, total=10, containers=(IDLE, BUSY))


@pytest.mark.parametrize(
    ("policy", "limits"),
    [
        (0, [5.0, 5.0]),
        (1, [50.0, 100.0]),
        (2, [25.0, 75.0]),
        (3, [5.0, 15.0]),
        (4, [50.0, 100.0]),
        (5, [100.0, 100.0]),
        (9, [100.0, 100.0]),
    ],
)
def test_policies(policy: int, limits: list[float]) -> None:
    """Each policy gives an idle container of weight 1 and a busy one of weight 3 its share."""
    shown = with_limits(replace(CARD, policy=policy))
    assert [one.limit for one in shown.containers] == limits


def test_high_priority() -> None:
    """Containers of high priority share prio_ratio percent, whatever the policy."""
    shown = with_limits(replace(CARD, containers=(IDLE, HIGH, replace(HIGH, directory="d", id="d"))))
    assert [one.limit for one in shown.containers][1:] == [40.0, 40.0]


def test_no_weight() -> None:
    """A container of weight 0 that is alone has no compute."""
    shown = with_limits(replace(CARD, policy=2, containers=(replace(IDLE, weight=0),)))
    assert shown.containers[0].limit == 0.0


@pytest.mark.parametrize(
    ("before", "after", "elapsed", "share"),
    [
        (1_000, 500_001_000, 1.0, 50.0),
        (1_000, 1_000, 1.0, 0.0),
        (1, 3_000_000_000, 1.0, 100.0),
        (0, 500, 1.0, None),
        (0, 0, 1.0, None),
        (500, 400, 1.0, None),
        (1, 2, 0.0, None),
    ],
)
def test_utilisation(before: int, after: int, elapsed: float, share: float | None) -> None:
    """Utilisation is the counter's growth over time, and unknown where nothing was counted."""
    looks = (replace(IDLE, engine_time=before), replace(IDLE, engine_time=after))
    assert utilisation(*looks, elapsed) == share


def test_another_container() -> None:
    """A directory that another container has taken over shows no utilisation."""
    first = replace(IDLE, engine_time=5)
    looks = [(replace(CARD, containers=(one,)),) for one in (first, replace(first, id="z", engine_time=9))]
    assert with_utilisation(looks[0], looks[1], 1.0)[0].containers[0].utilisation is None


def test_new_container() -> None:
    """A container that only the second look shows has no utilisation yet."""
    shown = with_utilisation((replace(CARD, containers=()),), (CARD,), 1.0)
    assert [one.utilisation for one in shown[0].containers] == [None, None]
