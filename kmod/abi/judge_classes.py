#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Name the classes of class_facts.json without a verdict in classes.json, with what the rule proposes.

A line can be put into classes.json as it is, after somebody has looked at it: a proposal of `judge` wants a
function in the core, and `?` is for a person to decide. Exits with 1 when there are any. Usage:
judge_classes.py
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FACTS, JUDGED = HERE / "class_facts.json", HERE / "classes.json"
# To whom the driver gives one: nothing of it is for a container.
REFUSED_RIGHTS = {"internal": "kernel", "kernel": "kernel", "root": "privileged"}
# What the driver makes for work in a channel, which is judged.
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


def proposal(fact: Json) -> tuple[str, str]:
    """Return the verdict that the rule has for a class, and why; "?" where a person has to decide."""
    name, resource = fact["name"], fact.get("resource")
    if DISPLAY.search(name):
        return "refuse", "display"
    refused = next((why for right, why in REFUSED_RIGHTS.items() if right in fact.get("rights", [])), None)
    if refused:
        return "refuse", refused
    if any("client" in field.lower() for field in fact.get("inside", [])):
        return "judge", "clients"
    if CHANNEL.search(name):
        return "judge", "context"
    if resource is None and ENGINE_NAME.search(name):
        return "pass", "engine_private"
    return ("pass", "engine") if resource in ENGINES else ("?", "?")


def missing(facts: Json, judged: Json) -> dict[str, Json]:
    """Return a proposal for each class without a verdict, by number."""
    found: dict[str, Json] = {}
    for number, fact in facts.items():
        if number not in judged:
            verdict, why = proposal(fact)
            found[number] = {"name": fact["name"], "verdict": verdict, "why": why}
    return found


def main() -> None:
    facts, judged = (json.loads(path.read_text())["classes"] for path in (FACTS, JUDGED))
    found = missing(facts, judged)
    for number, row in found.items():
        print(f"  {json.dumps(number)}: {json.dumps(row)},")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
