# SPDX-License-Identifier: Apache-2.0
"""How each document is carried out (scenarios.yaml): what is typed, and what must come of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

PACKAGE = f"/opt/opencgpu/lib/python3.{sys.version_info.minor}/site-packages/cgpu"
LENT = "# Node.lend_packages"


@dataclass(frozen=True)
class Expect:
    """What a command must come to. prints: a pattern that its output has."""

    prints: str = ""
    status: int = 0


@dataclass(frozen=True)
class Scenario:
    """One document. What the fields mean is said in scenarios.yaml."""

    skipped: Sequence[str] = ()
    inline: Sequence[str] = ()
    earlier: Sequence[str] = ()
    only: Sequence[str] = ()
    before: Mapping[str, Sequence[str]] = field(default_factory=dict)
    typed: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    expect: Mapping[str, Expect] = field(default_factory=dict)
    shown: Mapping[str, str] = field(default_factory=dict)


def scenario(expect: Mapping[str, str | dict[str, Any]] | None = None, **fields: Any) -> Scenario:
    """Return a document's scenario; what is expected may be a pattern alone."""
    wanted = {
        command: Expect(said) if isinstance(said, str) else Expect(**said)
        for command, said in (expect or {}).items()
    }
    return Scenario(expect=wanted, **fields)


TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text().replace("PACKAGE", PACKAGE))
SCENARIOS: Mapping[str, Scenario] = {name: scenario(**fields) for name, fields in TABLE.items()}
