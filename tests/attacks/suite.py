# SPDX-License-Identifier: Apache-2.0
"""All attacks, as tests that are given a harness."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from tests.attacks import (
    calls,
    channels,
    clients,
    containers,
    descriptors,
    foreign_files,
    mappings,
    memory,
    preloading,
    spaces,
    unjudged,
)
from tests.attacks.attack import Attack

FILES = (
    unjudged,
    preloading,
    containers,
    memory,
    spaces,
    descriptors,
    mappings,
    calls,
    channels,
    clients,
    foreign_files,
)


def marks(attack: Attack) -> list[pytest.MarkDecorator]:
    return [pytest.mark.enforcement] if attack.limit else []


def attacks(
    engine: str,
    without: ModuleType | None = None,
    marks: Callable[[Attack], list[pytest.MarkDecorator]] = marks,
) -> list[object]:
    """Return the attacks that can be tried on an engine, as parameters of a test."""
    files = [file for file in FILES if file is not without]
    found = [one for file in files for one in vars(file).values() if isinstance(one, Attack)]
    return [pytest.param(one, id=one.name, marks=marks(one)) for one in found if engine in one.engines]
