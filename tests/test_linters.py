# SPDX-License-Identifier: Apache-2.0
"""The linters and the house rules, as tests."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

FILE_LINES = 600
FUNCTION_LINES = 60
SOURCE = (".py", ".c", ".h")
# Files that are texts of others, or tables and captures that a program reads.
NOT_OURS = ("LICENSES/", "kmod/abi/nvidia.json")
TEXT = (*SOURCE, ".md", ".toml", ".json", ".yaml", ".service", ".socket", "")
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|root|Users|work)/\w")
ISSUE_NUMBER = re.compile(r"\bissue #?\d", re.IGNORECASE)
# Documents of this project lie in docs/ or have their names in capitals; others are of public standards.
NAMED_DOCUMENT = re.compile(
    r"(?<![\w/.:-])(?:docs/(?:(?:commands|container-engines|man)/)?[\w-]+|[A-Z]+)\.md\b"
)


def run(command: Sequence[str | Path], cwd: Path) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=280, check=False)
    if done.returncode != 0:
        pytest.fail(f"{command[0]}:\n{done.stdout}{done.stderr}", pytrace=False)


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed; run: scripts/bootstrap test")
    return found


def in_venv(name: str) -> Path:
    return Path(sys.executable).with_name(name)


def files(repository: Path) -> list[Path]:
    """Return every file that is in git or could be: not ignored, not a link, still there."""
    git = [tool("git"), "-c", f"safe.directory={repository}", "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(git, cwd=repository, capture_output=True, text=True, check=True).stdout
    paths = [repository / name for name in listed.split("\0") if name and not name.startswith(NOT_OURS)]
    return [path for path in paths if path.is_file() and not path.is_symlink()]


def source_files(repository: Path, *suffixes: str) -> list[Path]:
    return [path for path in files(repository) if path.suffix in suffixes]


def no_findings(found: list[str]) -> None:
    if found:
        pytest.fail("\n".join(sorted(found)), pytrace=False)


def python_functions(path: Path) -> Iterator[tuple[str, int]]:
    """Yield name and number of lines of every function of a Python file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


def c_functions(path: Path) -> Iterator[tuple[str, int]]:
    """Yield name and number of lines of every function of a C file in the project's format."""
    name, start = "", 0
    for number, line in enumerate(path.read_text().splitlines(), 1):
        head = re.match(r"[a-z][^;={]*?(\w+)\(", line)
        if head:
            name = head.group(1)
        elif line == "{":
            start = number
        elif line == "}" and start:
            yield name, number - start + 1
            start = 0


def test_ruff(repository: Path) -> None:
    """Ruff finds nothing."""
    run([in_venv("ruff"), "check", "--quiet", "."], repository)


def test_python_format(repository: Path) -> None:
    """Every Python file is formatted by ruff."""
    run([in_venv("ruff"), "format", "--check", "--quiet", "."], repository)


def test_mypy(repository: Path) -> None:
    """Types hold under mypy --strict."""
    run([in_venv("mypy")], repository)


def test_c_format(repository: Path) -> None:
    """Every C file is formatted by clang-format."""
    formatter = f"CLANG_FORMAT={in_venv('clang-format')}"
    run([tool("make"), "--no-print-directory", "-C", "kmod", formatter, "format-check"], repository)


def test_shellcheck(repository: Path) -> None:
    """Every shell script passes shellcheck."""
    scripts = [path for path in files(repository) if path.suffix in ("", ".sh") and is_shell(path)]
    assert scripts
    run([tool("shellcheck"), *scripts], repository)


def is_shell(path: Path) -> bool:
    """Say whether a file starts as a shell script does."""
    with path.open("rb") as stream:
        return re.match(rb"#!\s*/(usr/)?bin/(env )?(ba|da)?sh\b", stream.readline(100)) is not None


def test_file_length(repository: Path) -> None:
    """No source file is longer than the ceiling."""
    lengths = {path: path.read_text().count("\n") for path in source_files(repository, *SOURCE)}
    no_findings([f"{path}: {lines} lines" for path, lines in lengths.items() if lines > FILE_LINES])


def test_function_length(repository: Path) -> None:
    """No function is longer than the ceiling."""
    found = []
    for path in source_files(repository, *SOURCE):
        functions = python_functions(path) if path.suffix == ".py" else c_functions(path)
        found += [f"{path}: {name}: {lines} lines" for name, lines in functions if lines > FUNCTION_LINES]
    no_findings(found)


def test_licence_line(repository: Path) -> None:
    """Every source file names its licence in its first lines; of one that protoc makes, its source does."""
    expected = "SPDX-License-Identifier"
    sources = [path for path in source_files(repository, *SOURCE, ".proto") if not path.stem.endswith("_pb2")]
    heads = {path: path.read_text().splitlines()[:3] for path in sources}
    no_findings([f"{path}: no SPDX line" for path, head in heads.items() if expected not in "\n".join(head)])


def test_licences(repository: Path) -> None:
    """Every file has a licence and a holder, its own or that of REUSE.toml, and no licence lacks its text."""
    safe = ["GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", f"GIT_CONFIG_VALUE_0={repository}"]
    run(["env", *safe, in_venv("reuse"), "lint", "--lines"], repository)


def test_core_licence(repository: Path) -> None:
    """Files that the kernel module links are under a licence that the kernel takes."""
    core = [
        path for path in source_files(repository, ".c", ".h") if path.is_relative_to(repository / "kmod/core")
    ]
    no_findings(
        [f"{path}: licence" for path in core if "GPL-2.0-only OR Apache-2.0" not in path.read_text()[:100]]
    )


def test_facts(repository: Path) -> None:
    """Every test states its fact in a docstring."""
    found = []
    for path in source_files(repository, ".py"):
        if not path.name.startswith("test_"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                found += [] if ast.get_docstring(node) else [f"{path}:{node.lineno}: {node.name}"]
    no_findings(found)


def test_stands_alone(repository: Path) -> None:
    """No file names a path of one machine, or the number of an issue."""
    found = []
    for path in source_files(repository, *TEXT):
        text = path.read_text(errors="replace")
        hits = [*MACHINE_PATH.finditer(text), *ISSUE_NUMBER.finditer(text)]
        found += [f"{path}: {hit.group()}" for hit in hits if path != Path(__file__)]
    no_findings(found)


def test_named_documents(repository: Path) -> None:
    """Every document that a file names is in the project."""
    found = []
    for path in source_files(repository, *TEXT):
        hits = {hit.group() for hit in NAMED_DOCUMENT.finditer(path.read_text(errors="replace"))}
        found += [f"{path}: {name}" for name in hits if not (repository / name).exists()]
    no_findings(found)
