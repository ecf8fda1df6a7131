# SPDX-License-Identifier: Apache-2.0
"""The engine's GPUs and the containers on them."""

from __future__ import annotations

from collections.abc import Iterator

from cgpu.install.checks.finding import Finding, ok, problem, skipped, warning
from cgpu.install.node.report import NodeReport
from cgpu.install.node.snapshot import Card, Slice
from cgpu.smi.scheduling import NOBODY, parse

MIB = 1 << 20


def drift(now: NodeReport) -> list[Finding]:
    """Unaccounted memory."""
    if now.snapshot is None:
        return skipped("drift", "the tree cannot be read")
    config = now.in_force or now.wanted
    if config is None:
        return skipped("drift", "the configuration cannot be read")
    beyond = [
        (card, found)
        for card in now.snapshot.cards
        if (found := card.number("drift")) is not None and found > config.drift_tolerance
    ]
    if not beyond:
        return ok(
            "drift", f"no GPU has more than {config.drift_tolerance // MIB} MiB in use and charged to nobody"
        )
    named = ", ".join(f"GPU {card.index}: {found // MIB} MiB" for card, found in beyond)
    fix = "nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory --format=csv shows who has memory"
    text = f"{named} are in use and charged to nobody"
    if config.drift_reaction == "refuse":
        return problem("drift", f"{text}; sliced containers get nothing more there", fix)
    return warning("drift", text, fix)


def time_division(now: NodeReport) -> list[Finding]:
    """Whether the engine or the driver divides GPU time by policy and weights."""
    if now.snapshot is None:
        return skipped("time-division", "the tree cannot be read")
    nobody = [card for card in now.snapshot.cards if parse(card.nodes.get("sched", "")).divided_by == NOBODY]
    if nobody:
        return problem(
            "time-division",
            f"{_named(nobody)}: GPU time is divided by nobody, whatever policy and weights say",
            "the engine's log says what the driver lacks: GSP firmware, as a rule",
        )
    return ok("time-division", "policies and weights are kept")


def mig(now: NodeReport) -> list[Finding]:
    """Cards of the engine that are in MIG mode."""
    if now.snapshot is None:
        return skipped("engine-mig", "the tree cannot be read")
    cut = [card for card in now.snapshot.cards if card.nodes.get("mig") == "1"]
    if not cut:
        return ok("engine-mig", "none of the engine's GPUs is in MIG mode")
    fix = "; ".join(f"nvidia-smi -i {card.nodes.get('uuid', card.index)} -mig 0" for card in cut)
    text = f"{_named(cut)}: in MIG mode, cannot be sliced"
    if len(cut) == len(now.snapshot.cards):
        return problem("engine-mig", text, fix)
    return warning("engine-mig", text, fix)


def containers(now: NodeReport) -> list[Finding]:
    """Registrations whose container has no process any more."""
    if now.snapshot is None:
        return skipped("containers", "the tree cannot be read")
    left = sorted({one.id for one in slices(now) if is_gone(one, now.cgroups)})
    if left:
        return problem("containers", f"{', '.join(left)}: registered, and no process is left", "cgpu gc")
    count = len({one.id for one in slices(now)})
    return ok("containers", f"{count} containers are registered")


def slices(now: NodeReport) -> Iterator[Slice]:
    """Yield every slice of every GPU."""
    for card in now.snapshot.cards if now.snapshot is not None else ():
        yield from card.slices


def is_gone(one: Slice, cgroups: frozenset[str]) -> bool:
    """Tell whether a registration's cgroup, and those below it, have no process. False where it has none."""
    if one.cgroup is None:
        return False
    return not any(group == one.cgroup or group.startswith(one.cgroup + "/") for group in cgroups)


def _named(cards: list[Card]) -> str:
    return ", ".join(f"GPU {card.index}" for card in cards)
