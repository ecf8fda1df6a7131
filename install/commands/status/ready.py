# SPDX-License-Identifier: Apache-2.0
"""Whether this node can start sliced containers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from cgpu.config import effective
from cgpu.errors import CgpuError
from cgpu.install.checks import engine, gpus, places, runtime
from cgpu.install.checks.finding import Finding
from cgpu.install.node.report import Situation
from cgpu.install.node.snapshot import Card


class Exit(IntEnum):
    """Exit status of cgpu status. 2 is wrong usage."""

    READY = 0
    NOT_READY = 1
    NO_RUNTIME = 3
    FULL = 4


@dataclass(frozen=True, slots=True)
class Readiness:
    """The verdict; why it is not READY, and the command that helps."""

    exit: Exit
    why: str = ""
    fix: str = ""


def judge(now: Situation) -> Readiness:
    """Return whether a container that asks for a slice would start: the first reason why it would not."""
    found = [
        *places.draining(now),
        *engine.running(now),
        *engine.tree(now),
        *engine.listener(now),
        *gpus.mig(now),
    ]
    found += [*runtime.interpreter(), *runtime.hook(), *runtime.launcher()]
    bad = next((one for one in [*found, *_configured(now)] if one.verdict == "problem"), None)
    if bad is not None:
        return Readiness(Exit.NOT_READY, bad.text, bad.fix)
    if now.snapshot is not None and all(is_full(card) for card in now.snapshot.cards):
        return Readiness(
            Exit.FULL, "every GPU has given out its memory, weights or places", "cgpu-smi; cgpu gc"
        )
    if not any(one.runtime is not None for one in now.settings):
        why = "no container engine knows the runtime cgpu"
        return Readiness(Exit.NO_RUNTIME, why, "cgpu install --runtimes docker")
    return Readiness(Exit.READY)


def is_full(card: Card) -> bool:
    """Tell whether a GPU has nothing left to promise: no memory, no weight, no place; or is cut by MIG."""
    most, weight, total = card.number("max_inst"), card.number("free_weight"), card.number("memtotal")
    if card.nodes.get("mig") == "1" or weight == 0 or (most is not None and len(card.slices) >= most):
        return True
    return total is not None and promised(card) >= total


def promised(card: Card) -> int:
    """Return the bytes that are given out."""
    sizes = (one.nodes.get("memsize", "") for one in card.slices)
    return sum(int(size) for size in sizes if size.isascii() and size.isdigit())


def _configured(now: Situation) -> list[Finding]:
    """A node whose configuration no engine has read refuses who asks for GPUs."""
    del now
    try:
        effective.load()
        effective.check_started()
    except CgpuError as error:
        where, _, fix = str(error).rpartition(": ")
        return [Finding("configuration", "problem", where, fix)]
    return []
