# SPDX-License-Identifier: Apache-2.0
"""Promises of the layout: files depend on each other one way, and a folder can be taken in at a glance."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.test_linters import files, source_files

# Folders of Python by the name under which they are imported.
PACKAGES = {
    "cgpu": "cgpu",
    "hook": "cgpu.hook",
    "install": "cgpu.install",
    "runtime_config": "cgpu.runtime_config",
    "kmod": "cgpu.kmod",
}
# Files that are compiled together. A function of the core that a transport calls is no matter of circles.
COMPONENTS = (
    "kmod/core",
    "kmod/module",
    "kmod/daemon",
    "kmod/sim",
    "kmod/probe",
    "kmod/check",
    "runtime_config/launcher",
    "hook",
)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
# A definition begins a line, is not static and has a body: "u32 core_class(u32 class)\n{".
DEFINITION = re.compile(r"^(?!static\b|typedef\b|#)[a-z][\w \t*]*?\b(\w+)\([^;{]*\)\n\{", re.MULTILINE)
WORD = re.compile(r"\b[a-z_]\w+\b")
MOST_FILES = 24
PAGES = "docs/man"  # each command has one


def circle(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Return nodes of which each leads to the next, and the last is the first; none if there are no such."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def running(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a syntax tree, without what is there for types alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        yield from running(node)


def imports(path: Path, modules: Mapping[str, Path]) -> set[str]:
    names: set[str] = set()
    for node in running(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {name for name in names if name in modules and modules[name] != path}


def python_modules(repository: Path) -> dict[str, Path]:
    found = {}
    for path in source_files(repository, ".py"):
        parts = path.relative_to(repository).with_suffix("").parts
        if parts[0] in PACKAGES:
            found[".".join([PACKAGES[parts[0]], *(one for one in parts[1:] if one != "__init__")])] = path
    return found


def calls(sources: Iterable[Path]) -> dict[str, set[str]]:
    texts = {str(path): COMMENT.sub("", path.read_text()) for path in sources}
    defined = {name: path for path, text in texts.items() for name in DEFINITION.findall(text)}
    return {
        path: {defined[word] for word in WORD.findall(text) if word in defined} - {path}
        for path, text in texts.items()
    }


def test_python_has_no_circles(repository: Path) -> None:
    """No two modules import each other, by whatever way."""
    modules = python_modules(repository)
    assert len(modules) > 100
    assert circle({name: imports(path, modules) for name, path in modules.items()}) == []


@pytest.mark.parametrize("component", COMPONENTS)
def test_c_has_no_circles(repository: Path, component: str) -> None:
    """No two C files call each other's functions, directly or through others."""
    top = repository / component
    own = [path for path in source_files(repository, ".c") if path.is_relative_to(top)]
    assert own
    assert circle(calls(own)) == []


def test_helpers_alone_look_at_processes(repository: Path) -> None:
    """cgpud itself reads only files below /proc/PID that use nothing of that process; helpers read all else.

    A reader of most files below /proc/PID may have to wait for what a container serves itself.
    """
    top = repository / "kmod" / "daemon"
    own = [path for path in source_files(repository, ".c") if path.is_relative_to(top)]
    examining = {"examine.c", "examine_filters.c", "examine_space.c"}
    named = {
        name
        for path in own
        if path.name not in examining
        for name in re.findall(r'"/proc/%d/([^"]*)"', path.read_text())
    }
    assert named == {"cgroup", "ns/pid", "task"}
    users = {path.name for path in own if re.search(r"\bexamine_\w+\(", path.read_text())}
    assert users == {*examining, "helper_work.c"}
    assert {path.name for path in own if "ptrace(" in path.read_text()} == {"examine_filters.c"}


def test_folders_are_small(repository: Path) -> None:
    """No folder has more files than a reader takes in at a glance."""
    count = Counter(str(path.parent.relative_to(repository)) for path in files(repository))
    assert [folder for folder, files_in in count.items() if files_in > MOST_FILES and folder != PAGES] == []
