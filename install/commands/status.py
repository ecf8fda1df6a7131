# SPDX-License-Identifier: Apache-2.0
"""cgpu status: the engine and its GPUs, and whether this node can start sliced containers."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any

from cgpu import paths
from cgpu.arguments import Parser
from cgpu.client.scheduling import division, parse
from cgpu.client.stat import parse_slice
from cgpu.client.witness import meaning
from cgpu.config import effective
from cgpu.errors import CgpuError, one_line
from cgpu.install.checks import engine, places, runtime, trouble
from cgpu.install.checks.finding import Finding
from cgpu.install.node import report
from cgpu.install.node.report import NodeReport
from cgpu.install.node.snapshot import Card, Slice
from cgpu.install.privilege import require_root
from cgpu.slice import BESIDE_MEMORY, in_words

MIB = 1 << 20
ID_SHOWN = 12


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


def parser() -> argparse.ArgumentParser:
    out = Parser(
        prog="cgpu status",
        description="Show the engine and its GPUs. Exits 0 when sliced containers can start, 1 when not, "
        "3 when no container engine knows the runtime, 4 when every GPU is full.",
        examples=("cgpu status", "cgpu status --json"),
    )
    out.add_argument("--json", action="store_true", help="one JSON document")
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return whether sliced containers can start, as Exit says."""
    options = parser().parse_args(arguments)
    try:
        require_root("cgpu status")
        now = report.gather()
        ready = judge(now)
    except CgpuError as error:
        print(f"cgpu status: {error}", file=sys.stderr)
        return Exit.NOT_READY
    sys.stdout.write(as_json(now, ready) if options.json else as_text(now, ready))
    return ready.exit


def judge(now: NodeReport) -> Readiness:
    """Return whether a container that asks for a slice would start: the first reason why it would not."""
    found = [
        *places.draining(now),
        *_refused(now),
        *engine.running(now),
        *engine.driver(now),
        *engine.tree(now),
        *engine.listener(now),
        *engine.lost(now),
        *engine.mig(now),
    ]
    found += [*runtime.interpreter(), *runtime.hook(), *runtime.launcher()]
    bad = next((one for one in [*found, *_configured()] if one.verdict == "problem"), None)
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
    """Tell whether a GPU has nothing to promise: no memory, weight or place left; cut by MIG, or lost."""
    stat = card.stat
    if stat is None:
        return False
    if stat.lost or stat.mig or card.number("free_weight") == 0:
        return True
    return stat.places >= stat.max_inst or stat.promised >= stat.memtotal


def _refused(now: NodeReport) -> list[Finding]:
    """Whether the engine is down and would refuse its configuration. One that runs goes on with the last."""
    if now.node.ours.engine is not None or now.config_problem is None:
        return []
    start = paths.start_command(now.node.ours.tree)
    text = f"the engine is not running, and it refuses its configuration: {now.config_problem}"
    return [Finding("configuration", "problem", text, f"correct it (cgpu config check), then: {start}")]


def _configured() -> list[Finding]:
    """Whether an engine has read the configuration: until then containers that ask for GPUs are refused."""
    try:
        effective.load()
        effective.check_started()
    except CgpuError as error:
        where, _, fix = str(error).rpartition(": ")
        return [Finding("configuration", "problem", where, fix)]
    return []


# --- what is printed ---


def document(now: NodeReport, ready: Readiness) -> dict[str, Any]:
    """Return what --json prints; docs/commands/status.md describes it."""
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
            "enforces": ours.enforces if ours.engine is not None else None,
            "counts_pages": ours.counts_pages if ours.engine is not None else None,
            "witness": ours.witness or None,
            "tree": ours.tree,
            "simulated": (now.status or {}).get("simulate"),
        },
        "driver": {"version": driver.loaded, "kind": driver.kind, "known": driver.known},
        "runtimes": [
            {"engine": one.engine, "runtime": one.runtime, "default": one.default == "cgpu"}
            for one in now.settings
            if one.runtime is not None
        ],
        "troubles": [asdict(one) for one in now.troubles],
        "gpus": [_gpu(card) for card in _cards(now)],
    }


def as_json(now: NodeReport, ready: Readiness) -> str:
    return json.dumps(document(now, ready), indent=1) + "\n"


def as_text(now: NodeReport, ready: Readiness) -> str:
    """Return the lines for people."""
    lines = [
        f"engine    {_engine(now)}",
        f"driver    {_driver(now)}",
        f"runtimes  {', '.join(sorted({one.engine for one in now.settings if one.runtime})) or 'none'}",
        f"sliced containers can start: {'yes' if ready.exit is Exit.READY else f'no: {ready.why}'}",
    ]
    lines += [f"  fix: {ready.fix}"] if ready.fix else []
    lines += [line for text, fix in trouble.lines(now) for line in (text, f"  fix: {fix}")]
    lines += [line for card in _cards(now) for line in _card(card)]
    return "\n".join(one_line(line) for line in lines) + "\n"


def _cards(now: NodeReport) -> tuple[Card, ...]:
    return now.snapshot.cards if now.snapshot is not None else ()


def _engine(now: NodeReport) -> str:
    ours = now.node.ours
    if ours.engine is None:
        return "does not run"
    off = "" if ours.enforces else ", limits are not held"
    pages = "the driver's pages are counted" if ours.counts_pages else "calls alone are counted"
    watched = f"; {meaning(ours.witness)[0]}" if ours.witness else ""
    return f"{ours.engine} {ours.version} at {ours.tree}, {pages}{watched}{off}"


def _driver(now: NodeReport) -> str:
    simulated = (now.status or {}).get("simulate")
    if simulated:
        return f"simulated cards: {simulated}"
    driver = now.node.driver
    if driver.loaded is None:
        return "installed, not loaded" if driver.installed else "none"
    row = driver.rows.of(driver.loaded)
    known = "" if driver.known else ", not in the table"
    if now.node.ours.provisional:
        known += ": served provisionally, by older layouts"
    elif now.node.ours.by_row:
        known += f": served by {row.file if row else 'a file that is no longer there'}"
    return f"NVIDIA {driver.loaded}, {driver.kind}{known}"


def _card(card: Card) -> Iterator[str]:
    policy = card.number("policy")
    by = division(parse(card.nodes.get("sched", "")))
    cut = ", in MIG mode" if card.nodes.get("mig") == "1" else ""
    lost = ", lost" if card.is_lost() else ""
    unused = f" ({_mib(card.reserved())} reserved and unused)" if card.reserved() else ""
    given = f"{_mib(card.promised())} of {_mib(card.number('memtotal'))} promised{unused}"
    yield (
        f"GPU {card.index}  {card.nodes.get('name', '?')}, {given}, "
        f"{len(card.slices)} of {card.number('max_inst')} containers, "
        f"policy {policy} ({card.policy_name}{by}){cut}{lost}"
    )
    for one in card.slices:
        numbers = _slice(one)
        yield (
            f"  {one.id[:ID_SHOWN]:<{ID_SHOWN}}  {_mib(numbers['memsize'])}, {_mib(numbers['used'])} used, "
            f"{in_words(numbers)}"
        )
    for container, size in card.left().items():
        yield f"  {container[:ID_SHOWN]:<{ID_SHOWN}}  ended, {_mib(size)} not yet freed by the driver"


def _gpu(card: Card) -> dict[str, Any]:
    return {
        "index": card.index,
        "uuid": card.nodes.get("uuid"),
        "name": card.nodes.get("name"),
        "memtotal": card.number("memtotal"),
        "promised": card.promised(),
        "reserved": card.reserved(),
        "free_weight": card.number("free_weight"),
        "max_inst": card.number("max_inst"),
        "policy": card.number("policy"),
        "divided_by": parse(card.nodes.get("sched", "")).divided_by,
        "mig": card.nodes.get("mig") == "1",
        "lost": card.is_lost(),
        "full": is_full(card),
        "left": dict(card.left()),
        "containers": [{"id": one.id, **_slice(one)} for one in card.slices],
    }


def _slice(one: Slice) -> dict[str, int | None]:
    try:
        used = parse_slice(one.nodes.get("stat", "")).used
    except CgpuError:
        used = None
    return {
        "memsize": one.number("memsize"),
        "used": used,
        **{of.name: one.number(of.name) for of in BESIDE_MEMORY},
    }


def _mib(size: int | None) -> str:
    return "?" if size is None else f"{size // MIB} MiB"
