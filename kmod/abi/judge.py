#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Name the controls or classes without a verdict, with what the rule proposes for each.

Facts are in control_facts.json and class_facts.json, verdicts in controls.json and classes.json. A line
can be put into the latter as it is, after somebody has looked at it: a proposal of `judge` wants a function
in the core, and `?` is for a person to decide. Exits with 1 when there are any.
Usage: judge.py controls|classes
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# Reason to refuse a control, by the right that the driver asks for: no container has such a right.
CONTROL_RIGHTS = {
    "internal": "internal",
    "kernel": "kernel",
    "test": "diagnostic",
    "root": "privileged",
    "access": "privileged",
}
# Controls of whole classes, by the upper half of the number.
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
CLASS_RIGHTS = {"internal": "kernel", "kernel": "kernel", "root": "privileged"}
# Objects that the driver makes for work in a channel; the channel itself is judged.
ENGINES = {
    "KernelCeContext",
    "KernelGraphicsObject",
    "MsencContext",
    "NvdecContext",
    "NvjpgContext",
    "OfaContext",
}
ENGINE_NAME = re.compile(r"_VIDEO_(DECODER|ENCODER|NVJPG|OFA)$|_COMPUTE_[A-Z]$|_DMA_COPY_[A-Z]$")
DISPLAY = re.compile(r"DISP|_CURSOR_|_WINDOW_|_CORE_CHANNEL_|_BASE_CHANNEL_|_OVERLAY_")
CHANNEL = re.compile(r"_CHANNEL_GPFIFO_[A-Z]$")

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
    return next((why for right, why in CONTROL_RIGHTS.items() if right in rights), None)


def control_proposal(number: int, fact: Json) -> tuple[str, str]:
    """Return the verdict that the rule has for a control, and why; "?" where a person has to decide."""
    if fact["name"].endswith("_CMD_NULL"):
        return "pass", "null"
    refused = refusal(number, fact)
    if refused:
        return "refuse", refused
    if any("hClient" in field for field in fact.get("inside", [])):
        return "judge", "clients"
    return ("pass", "read") if READS.search(fact["name"]) else ("?", "?")


def class_proposal(_number: int, fact: Json) -> tuple[str, str]:
    """Return the verdict that the rule has for a class, and why; "?" where a person has to decide."""
    name, resource = fact["name"], fact.get("resource")
    if DISPLAY.search(name):
        return "refuse", "display"
    refused = next((why for right, why in CLASS_RIGHTS.items() if right in fact.get("rights", [])), None)
    if refused:
        return "refuse", refused
    if any("client" in field.lower() for field in fact.get("inside", [])):
        return "judge", "clients"
    if CHANNEL.search(name):
        return "judge", "context"
    if resource is None and ENGINE_NAME.search(name):
        return "pass", "engine_private"
    return ("pass", "engine") if resource in ENGINES else ("?", "?")


# Files of facts and verdicts of each kind, and its rule.
KINDS: dict[str, tuple[str, str, Callable[[int, Json], tuple[str, str]]]] = {
    "controls": ("control_facts.json", "controls.json", control_proposal),
    "classes": ("class_facts.json", "classes.json", class_proposal),
}


def missing(kind: str, facts: Json, judged: Json) -> dict[str, Json]:
    """Return a proposal for each control or class without a verdict, by number."""
    found: dict[str, Json] = {}
    for number, fact in facts.items():
        if number not in judged:
            verdict, why = KINDS[kind][2](int(number, 16), fact)
            found[number] = {"name": fact["name"], "verdict": verdict, "why": why}
    return found


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1] not in KINDS:
        sys.exit("usage: judge.py controls|classes")
    kind = sys.argv[1]
    facts, judged = (json.loads((HERE / name).read_text())[kind] for name in KINDS[kind][:2])
    found = missing(kind, facts, judged)
    for number, row in found.items():
        print(f"  {json.dumps(number)}: {json.dumps(row)},")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
