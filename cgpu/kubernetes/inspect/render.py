# SPDX-License-Identifier: Apache-2.0
"""The tables of `kubectl inspect cgpu`: the columns that users of Alibaba's tool know."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from cgpu.kubernetes.inspect.collect import SLICES, GivenShare, NodeState
from cgpu.kubernetes.labels import NOT_ISOLATED

MIB_OF_GIB = 1024
GAP = "  "
MODES = {NOT_ISOLATED: f"{NOT_ISOLATED} (counted, not enforced)"}


def summary(nodes: Sequence[NodeState], *, wide: bool = False) -> str:
    """Return a line for each node. wide: with what is used, products, and what keeps pods away."""
    unit = unit_of(nodes)
    most = max((len(node.gpus) for node in nodes), default=0)
    head = ["NAME", "IPADDRESS", *_heads(range(most), "Allocated/Total", wide=wide), f"GPU Memory({unit})"]
    rows = [[*head, *([f"Used({unit})", "PRODUCT", "TAINTS", "MODE"] if wide else [])]]
    for node in nodes:
        row = [node.name, node.address]
        for gpu in node.gpus:
            row += [_of(gpu.allocated, gpu.mib, unit), *([used(gpu.used, unit)] if wide else [])]
        row += [_of(0, 0, unit), *(["0"] if wide else [])] * (most - len(node.gpus))
        row.append(_of(node.allocated, node.total, unit))
        if wide:
            row += [used(node.used, unit), _listed(gpu.product for gpu in node.gpus), _taints(node)]
            row.append(node.mode)
        rows.append(row)
    table = aligned(rows)
    return "\n".join([*table, *cluster(nodes, unit, max(map(len, table)))]) + "\n"


def details(nodes: Sequence[NodeState], *, wide: bool = False) -> str:
    """Return each node with the pods that have a part of its GPUs. wide: with what they use."""
    unit = unit_of(nodes)
    lines: list[str] = []
    for node in nodes:
        lines += ["", f"NAME:       {node.name}", f"IPADDRESS:  {node.address}"]
        lines += [f"MODE:       {MODES.get(node.mode, node.mode)}", ""] if node.mode != SLICES else [""]
        head = ["NAME", "NAMESPACE", *_heads((gpu.index for gpu in node.gpus), "Allocated", wide=wide)]
        lines += aligned([head, *_pods(node, unit, wide=wide)])
        lines += [f"Allocated :  {amount(node.allocated, unit)} ({percent(node.allocated, node.total)})"]
        lines += [f"Used :       {used(node.used, unit)}"] if wide else []
        lines += [f"Total :      {amount(node.total, unit)}"]
        lines += ["-" * max(map(len, lines))]
    return "\n".join([*lines[1:], *cluster(nodes, unit, 0)]) + "\n"


def document(nodes: Sequence[NodeState]) -> str:
    """Return all of it as JSON; memory in MiB."""
    listed = [
        {**asdict(node), "allocated": node.allocated, "total": node.total, "used": node.used}
        for node in nodes
    ]
    return json.dumps({"version": 1, "nodes": listed}, indent=2) + "\n"


def unit_of(nodes: Sequence[NodeState]) -> str:
    """Return GiB where all cards are whole GiB, else MiB."""
    return "GiB" if all(gpu.mib % MIB_OF_GIB == 0 for node in nodes for gpu in node.gpus) else "MiB"


def amount(mib: int, unit: str) -> str:
    """Return an amount, with one digit behind the point where it is no whole number of the unit."""
    if unit == "MiB":
        return str(mib)
    return str(mib // MIB_OF_GIB) if mib % MIB_OF_GIB == 0 else f"{mib / MIB_OF_GIB:.1f}"


def used(mib: int | None, unit: str) -> str:
    """Return what is used: ? where that is not known, and never 0 where something is."""
    if mib is None or mib == 0:
        return "?" if mib is None else "0"
    return str(mib) if unit == "MiB" else f"{max(0.1, mib / MIB_OF_GIB):.1f}"


def percent(part: int, whole: int) -> str:
    """Return a part in percent, rounded down."""
    return f"{100 * part // whole if whole else 0}%"


def cluster(nodes: Sequence[NodeState], unit: str, width: int) -> Iterator[str]:
    """Yield the last lines."""
    allocated, total = sum(node.allocated for node in nodes), sum(node.total for node in nodes)
    if width:
        yield "-" * width
    yield "Allocated/Total GPU Memory In Cluster:"
    yield f"{_of(allocated, total, unit)} ({percent(allocated, total)})"


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows with columns below each other."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def _heads(indexes: Iterable[int], what: str, *, wide: bool) -> Iterator[str]:
    for index in indexes:
        yield f"GPU{index}({what})"
        if wide:
            yield f"GPU{index}(Used)"


def _pods(node: NodeState, unit: str, *, wide: bool) -> list[list[str]]:
    found: dict[tuple[str, str], dict[int, list[GivenShare]]] = defaultdict(lambda: defaultdict(list))
    for gpu in node.gpus:
        for share in gpu.shares:
            found[(_listed(share.pods) or f"claim {share.claim}", share.namespace)][gpu.index].append(share)
    rows = []
    for names, parts in sorted(found.items()):
        row = [*names]
        for gpu in node.gpus:
            shares = parts.get(gpu.index, [])
            row.append(amount(sum(share.mib for share in shares), unit))
            if wide:
                known = [share.used for share in shares if share.used is not None]
                row.append(used(sum(known) if len(known) == len(shares) else None, unit))
        rows.append(row)
    return rows


def _of(part: int, whole: int, unit: str) -> str:
    return f"{amount(part, unit)}/{amount(whole, unit)}"


def _listed(names: Iterator[str] | Sequence[str]) -> str:
    return ",".join(dict.fromkeys(names))


def _taints(node: NodeState) -> str:
    return _listed(f"GPU{gpu.index}:{key}" for gpu in node.gpus for key in gpu.taints) or "-"
