# SPDX-License-Identifier: Apache-2.0
"""The probe's output, as values."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

NO_MEMORY = 0x51
FIELD = re.compile(r'(\w+)=("[^"]*"|\S+)')


class Printed(Protocol):
    """A finished command, wherever it ran."""

    @property
    def returncode(self) -> int: ...

    @property
    def stdout(self) -> str: ...

    @property
    def text(self) -> str: ...


@dataclass(frozen=True)
class Step:
    """One line of the probe: its first word, its plain words and its fields."""

    name: str
    words: tuple[str, ...]
    fields: dict[str, str]

    def number(self, field: str) -> int:
        """Return a field as a number; hexadecimal is understood."""
        return int(self.fields[field], 0)


def steps(outcome: Printed) -> list[Step]:
    found = []
    for line in outcome.stdout.splitlines():
        words = line.split()
        if words:
            plain = tuple(word for word in words[1:] if "=" not in word)
            found.append(Step(words[0], plain, dict(FIELD.findall(line))))
    return found


def step(outcome: Printed, name: str, index: int = 0) -> Step:
    """Return one step by name; fail with all that was printed when it is not there."""
    found = [one for one in steps(outcome) if one.name == name]
    assert len(found) > index, f"no step {name} number {index}: {outcome.returncode}: {outcome.text}"
    return found[index]
