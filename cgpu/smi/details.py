# SPDX-License-Identifier: Apache-2.0
"""The detailed view: the figures of the JSON document as indented lines, as nvidia-smi -q prints them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cgpu.smi.text import UNITS, UNKNOWN, known, memory

KEYS = 42  # columns before the colon
# Lists whose entries get a heading each, of this word and the entry's first value.
HEADINGS = {
    "gpus": "GPU",
    "containers": "Container",
    "processes": "Process",
    "memory_left": "Ended",
}
CAPITALS = {"gpus": "GPUs", "id": "ID", "mig": "MIG", "pid": "PID", "pids": "PIDs", "uuid": "UUID"}


def details(document: Mapping[str, object]) -> str:
    """Return the whole text of a document that json.dumps would take."""
    return "".join(f"{line}\n" for line in ("", f"{'CGPU-SMI LOG':=^42}", "", *_lines(document)))


def _lines(entries: Mapping[str, object], depth: int = 0) -> Iterator[str]:
    for key, value in entries.items():
        indent = "    " * depth
        if isinstance(value, Mapping):
            yield indent + _label(key)
            yield from _lines(value, depth + 1)
        elif isinstance(value, list) and value and key in HEADINGS:
            for entry in value:
                yield f"{indent}{HEADINGS[key]} {known(next(iter(entry.values())))}"
                yield from _lines(entry, depth + 1)
        else:
            yield f"{indent + _label(key):<{KEYS}}: {_text(key, value)}"


def _label(key: str) -> str:
    *words, last = key.split("_")
    shown = words if words and last in UNITS else [*words, last]
    return " ".join(CAPITALS.get(word, word.capitalize()) for word in shown)


def _text(key: str, value: object) -> str:
    """Return a value with the unit that its key ends in."""
    unit = UNITS.get(key.rpartition("_")[2])
    match value:
        case None:
            return UNKNOWN
        case bool():
            return "Yes" if value else "No"
        case list():
            return ", ".join(map(str, value)) or "None"
        case int() if unit == "B":
            return memory(value, " ")
    return f"{known(str(value))} {unit}" if unit else known(str(value))
