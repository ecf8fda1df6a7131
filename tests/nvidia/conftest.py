# SPDX-License-Identifier: Apache-2.0
"""Tests of others' software: a file is left out, with a reason, where the archive has not what it needs.

A file says what that is in its function `needs`, which raises NotInArchiveError.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.nvidia.archive import NotInArchiveError

HERE = Path(__file__).parent
REASONS = pytest.StashKey[list[str]]()


def reason_not_to_run(module: ModuleType) -> str:
    """Return why a file cannot be tested here, or nothing."""
    needs = getattr(module, "needs", None)
    try:
        if needs is not None:
            needs()
    except NotInArchiveError as error:
        return str(error)
    return ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the files whose software is not reached. That is no skip: those may be forbidden."""
    reasons: dict[Path, str] = {}
    left_out = []
    for item in items:
        if HERE not in item.path.parents or not isinstance(item, pytest.Function):
            continue
        if item.path not in reasons:
            reasons[item.path] = reason_not_to_run(item.module)
        if reasons[item.path]:
            left_out.append(item)
    config.stash[REASONS] = sorted({reason for reason in reasons.values() if reason})
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say once why tests were left out."""
    for reason in config.stash.get(REASONS, []):
        terminalreporter.write_line(f"tests/nvidia: not run: {reason}")
