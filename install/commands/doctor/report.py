# SPDX-License-Identifier: Apache-2.0
"""How findings are shown: a table for people, a document for programs."""

from __future__ import annotations

import json
from typing import Any

from cgpu import __version__
from cgpu.errors import one_line
from cgpu.install.checks.finding import Finding
from cgpu.install.node.report import Situation

FORMAT = "cgpu-doctor"
VERSION = 1
VERDICTS = ("problem", "warning", "ok", "skipped")
MARKS = {"ok": "ok", "warning": "warning", "problem": "PROBLEM", "skipped": "skipped"}


def is_good(found: list[Finding]) -> bool:
    """Tell whether nothing keeps sliced containers from starting, or limits from holding."""
    return all(one.verdict != "problem" for one in found)


def document(now: Situation, found: list[Finding], fixed: list[str]) -> dict[str, Any]:
    """Return what --json prints; docs/doctor.md describes it."""
    ours = now.node.ours
    return {
        "format": FORMAT,
        "version": VERSION,
        "good": is_good(found),
        "commands": __version__,
        "engine": {"wanted": now.kind, "running": ours.engine, "version": ours.version, "tree": ours.tree},
        "counts": {verdict: sum(one.verdict == verdict for one in found) for verdict in VERDICTS},
        "findings": [
            {"name": one.name, "verdict": one.verdict, "text": one_line(one.text), "fix": one_line(one.fix)}
            for one in found
        ],
        "fixed": [one_line(line) for line in fixed],
    }


def as_json(now: Situation, found: list[Finding], fixed: list[str]) -> str:
    """Return the document as text."""
    return json.dumps(document(now, found, fixed), indent=1) + "\n"


def as_text(found: list[Finding], *, everything: bool) -> str:
    """Return one line for each finding and one for its fix. everything: what is well, too."""
    lines = []
    width = max((len(one.name) for one in found), default=0)
    for verdict in VERDICTS:
        if verdict in ("ok", "skipped") and not everything:
            continue
        for one in (one for one in found if one.verdict == verdict):
            lines.append(f"{MARKS[verdict]:<8} {one.name:<{width}}  {one_line(one.text)}")
            if one.fix:
                lines.append(f"{'':<8} {'':<{width}}  fix: {one_line(one.fix)}")
    counts = {verdict: sum(one.verdict == verdict for one in found) for verdict in VERDICTS}
    summary = ", ".join(f"{counts[verdict]} {MARKS[verdict].lower()}" for verdict in VERDICTS)
    return "\n".join([*lines, summary]) + "\n"
