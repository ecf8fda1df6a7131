# SPDX-License-Identifier: Apache-2.0
"""What cgpu status prints."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from cgpu.errors import one_line
from cgpu.install.commands.status.ready import Exit, Readiness, is_full, promised
from cgpu.install.node.report import Situation
from cgpu.install.node.snapshot import Card, Slice
from cgpu.smi.model import POLICIES
from cgpu.smi.notes import division
from cgpu.smi.scheduling import parse

MIB = 1 << 20
ID_SHOWN = 12


def document(now: Situation, ready: Readiness) -> dict[str, Any]:
    """Return what --json prints; docs/status.md describes it."""
    ours, driver = now.node.ours, now.node.driver
    return {
        "format": "cgpu-status",
        "version": 1,
        "ready": ready.exit is Exit.READY,
        "exit": int(ready.exit),
        "why": ready.why,
        "fix": ready.fix,
        "commands": ours.commands,
        "engine": {
            "name": ours.engine,
            "version": ours.version,
            "memory_backend": ours.backend,
            "enforces": ours.enforces if ours.engine is not None else None,
            "tree": ours.tree,
            "simulated": (now.status or {}).get("simulate"),
        },
        "driver": {"version": driver.loaded, "kind": driver.kind, "known": driver.known},
        "runtimes": [
            {"engine": one.engine, "runtime": one.runtime, "default": one.default == "cgpu"}
            for one in now.settings
            if one.runtime is not None
        ],
        "gpus": [_gpu(card) for card in _cards(now)],
    }


def as_json(now: Situation, ready: Readiness) -> str:
    """Return the document as text."""
    return json.dumps(document(now, ready), indent=1) + "\n"


def as_text(now: Situation, ready: Readiness) -> str:
    """Return the lines for people."""
    lines = [
        f"engine    {_engine(now)}",
        f"driver    {_driver(now)}",
        f"runtimes  {', '.join(sorted({one.engine for one in now.settings if one.runtime})) or 'none'}",
        f"sliced containers can start: {'yes' if ready.exit is Exit.READY else f'no: {ready.why}'}",
    ]
    lines += [f"  fix: {ready.fix}"] if ready.fix else []
    lines += [line for card in _cards(now) for line in _card(card)]
    return "\n".join(one_line(line) for line in lines) + "\n"


def _cards(now: Situation) -> tuple[Card, ...]:
    return now.snapshot.cards if now.snapshot is not None else ()


def _engine(now: Situation) -> str:
    ours = now.node.ours
    if ours.engine is None:
        return "does not run"
    off = "" if ours.enforces else ", limits are not held"
    return f"{ours.engine} {ours.version} at {ours.tree}, memory backend {ours.backend}{off}"


def _driver(now: Situation) -> str:
    simulated = (now.status or {}).get("simulate")
    if simulated:
        return f"simulated cards: {simulated}"
    driver = now.node.driver
    if driver.loaded is None:
        return "installed, not loaded" if driver.installed else "none"
    return f"NVIDIA {driver.loaded}, {driver.kind}" + ("" if driver.known else ", not in the table")


def _card(card: Card) -> Iterator[str]:
    policy = card.number("policy")
    named = POLICIES[policy] if policy is not None and 0 <= policy < len(POLICIES) else "unknown"
    by = division(parse(card.nodes.get("sched", "")))
    cut = ", in MIG mode" if card.nodes.get("mig") == "1" else ""
    given = f"{_mib(promised(card))} of {_mib(card.number('memtotal'))} promised"
    yield (
        f"GPU {card.index}  {card.nodes.get('name', '?')}, {given}, "
        f"{len(card.slices)} of {card.number('max_inst')} containers, "
        f"policy {policy} ({named}{by}){cut}"
    )
    for one in card.slices:
        numbers = _slice(one)
        yield (
            f"  {one.id[:ID_SHOWN]:<{ID_SHOWN}}  {_mib(numbers['memsize'])}, {_mib(numbers['used'])} used, "
            f"weight {numbers['weight']}" + (", high priority" if numbers["highprio"] else "")
        )


def _gpu(card: Card) -> dict[str, Any]:
    return {
        "index": card.index,
        "uuid": card.nodes.get("uuid"),
        "name": card.nodes.get("name"),
        "memtotal": card.number("memtotal"),
        "promised": promised(card),
        "free_weight": card.number("free_weight"),
        "max_inst": card.number("max_inst"),
        "policy": card.number("policy"),
        "divided_by": parse(card.nodes.get("sched", "")).divided_by,
        "mig": card.nodes.get("mig") == "1",
        "full": is_full(card),
        "containers": [{"id": one.id, **_slice(one)} for one in card.slices],
    }


def _slice(one: Slice) -> dict[str, int | None]:
    def number(text: str) -> int | None:
        return int(text) if len(text) <= 20 and text.isascii() and text.isdigit() else None

    size = number(one.nodes.get("memsize", ""))
    first = one.nodes.get("meminfo", "").partition("\n")[0]
    free = number(first.removeprefix("Free:").strip())
    used = None if size is None or free is None else max(0, size - free)
    return {
        "memsize": size,
        "used": used,
        "weight": number(one.nodes.get("weight", "")),
        "highprio": number(one.nodes.get("highprio", "")),
    }


def _mib(size: int | None) -> str:
    return "?" if size is None else f"{size // MIB} MiB"
