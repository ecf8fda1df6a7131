# SPDX-License-Identifier: Apache-2.0
"""Commands that cannot be carried out on the node of tests/docs: which test runs them, or why none does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml


@dataclass(frozen=True)
class By:
    """A test that runs a command, as elsewhere.yaml has it."""

    test: str
    words: Sequence[str]
    programs: Sequence[str] = ()
    how: str = ""


TABLE = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
ELSEWHERE: Mapping[str, By] = {command: By(**by) for command, by in TABLE["run_by"].items()}
REASONS: Mapping[str, str] = TABLE["reasons"]
