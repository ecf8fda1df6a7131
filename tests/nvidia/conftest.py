# SPDX-License-Identifier: Apache-2.0
"""Tests of others' software: a file is skipped, with a reason, where the archive has not what it needs.

A file says what that is in its function `needs`, which raises NotInArchiveError.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from tests.nvidia.archive import NotInArchiveError

HERE = Path(__file__).parent


def reason_not_to_run(module: ModuleType) -> str:
    """Return why a file cannot be tested here, or nothing."""
    needs = getattr(module, "needs", None)
    try:
        if needs is not None:
            needs()
    except NotInArchiveError as error:
        return str(error)
    return ""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the files whose software is not reached; their mark is for tests/conftest.py, which allows it."""
    reasons: dict[Path, str] = {}
    for item in items:
        if HERE not in item.path.parents or not isinstance(item, pytest.Function):
            continue
        if item.path not in reasons:
            reasons[item.path] = reason_not_to_run(item.module)
        if reasons[item.path]:
            item.add_marker(pytest.mark.archive)
            item.add_marker(pytest.mark.skip(reason=reasons[item.path]))
