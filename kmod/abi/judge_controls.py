#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Name the controls of control_facts.json without a verdict in controls.json, with what the rule proposes.

A line can be put into controls.json as it is, after somebody has looked at it: a proposal of `judge`
wants a handler in the core, and `?` is for a person to decide. Exits with 1 when there are any. Usage:
judge_controls.py
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FACTS, JUDGED = HERE / "control_facts.json", HERE / "controls.json"
# By whom the driver lets a control be called: nothing of it is for a container.
REFUSED_RIGHTS = {
    "internal": "internal",
    "kernel": "kernel",
    "test": "diagnostic",
    "root": "privileged",
    "access": "privileged",
}
# Whole classes, by the upper half of the number.
REFUSED_CLASSES = {
    "display": (0x73, 0x76, 0x30F1, 0x402C, 0x5070, 0x9010, 0x9072, 0x90EC, 0xC370, 0xC372),
    "vgpu": (0xA080, 0xA081, 0xA083, 0xA084),
    "fabric": (0xF, 0xE0, 0xF1, 0xF8, 0xF9, 0xFB, 0xFD),
    "profiler": (0x90CC, 0x90CD, 0xB0CC, 0xC763, 0xCBCA),
    "debugger": (0x83DE,),
    "diagnostic": (0x100, 0x208F),
    "faults": (0xB069, 0xC365, 0xC369),
}
READS = re.compile(r"_(GET|QUERY|IS)(_|$)")

Json = dict[str, Any]


def refusal(number: int, fact: Json) -> str | None:
    """Return why the rule refuses a control; None: it does not."""
    rights = set(" ".join(fact.get("rights", [])).split())
    for why, classes in REFUSED_CLASSES.items():
        if number >> 16 in classes:
            return why
    if "_INTERNAL_" in fact["name"]:
        return "internal"
    if not rights:
        return "private"
    return next((why for right, why in REFUSED_RIGHTS.items() if right in rights), None)


def proposal(number: int, fact: Json) -> tuple[str, str]:
    """Return the verdict that the rule has for a control, and why; "?" where a person has to decide."""
    if fact["name"].endswith("_CMD_NULL"):
        return "pass", "null"
    refused = refusal(number, fact)
    if refused:
        return "refuse", refused
    if any("hClient" in field for field in fact.get("inside", [])):
        return "judge", "clients"
    return ("pass", "read") if READS.search(fact["name"]) else ("?", "?")


def missing(facts: Json, judged: Json) -> dict[str, Json]:
    """Return a proposal for each control without a verdict, by number."""
    found: dict[str, Json] = {}
    for number, fact in facts.items():
        if number not in judged:
            verdict, why = proposal(int(number, 16), fact)
            found[number] = {"name": fact["name"], "verdict": verdict, "why": why}
    return found


def main() -> None:
    facts, judged = (json.loads(path.read_text())["controls"] for path in (FACTS, JUDGED))
    found = missing(facts, judged)
    for number, row in found.items():
        print(f"  {json.dumps(number)}: {json.dumps(row)},")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
