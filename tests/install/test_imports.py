# SPDX-License-Identifier: Apache-2.0
"""Modules of the installer depend on each other in one direction."""

from __future__ import annotations

import ast
import graphlib
from pathlib import Path


def modules(repository: Path) -> dict[str, Path]:
    """Return the modules of install/ by the name they are imported by."""
    return {
        "cgpu." + ".".join(path.relative_to(repository).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (repository / "install").rglob("*.py")
    }


def test_no_circles(repository: Path) -> None:
    """No module imports one that imports it, also within functions."""
    known = modules(repository)
    graph: dict[str, set[str]] = {}
    for name, path in known.items():
        named = {
            f"{node.module}.{alias.name}" if f"{node.module}.{alias.name}" in known else node.module
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom) and node.module is not None
            for alias in node.names
        }
        graph[name] = named & known.keys() - {name}
    assert len(graph) > 50
    graphlib.TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle
