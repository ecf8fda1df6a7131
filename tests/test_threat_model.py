# SPDX-License-Identifier: Apache-2.0
"""The threat model names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

SECTION = re.compile(r"^## Ways out that are known of other tools\n(.*?)^## ", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`([a-z_/]+\.py)(?:::(\w+))?`")


def rows(repository: Path) -> list[list[str]]:
    found = SECTION.search((repository / "docs/threat-model.md").read_text())
    assert found is not None
    lines = [line for line in found.group(1).splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def functions(path: Path) -> set[str]:
    return {node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef)}


def test_named_tests_exist(repository: Path) -> None:
    """Each row names tests, and each of these is there."""
    missing = []
    for way, _, _, _, tests in rows(repository):
        named = NAMED.findall(tests)
        assert named, way
        for name, function in named:
            path = repository / "tests" / name
            if not path.is_file() or (function and function not in functions(path)):
                missing.append(f"{way}: {name}::{function}")
    assert missing == []
