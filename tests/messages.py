# SPDX-License-Identifier: Apache-2.0
"""The texts of messages in the sources: what is filled in stands as an ellipsis."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

GAP = "…"
STRING = r'"(?:[^"\\\n]|\\.)*"'
PART = re.compile(rf"({STRING})|[A-Z][A-Z0-9_a-z]*")
RUN = re.compile(rf"{STRING}(?:\s*(?:{STRING}|\b[A-Z][A-Z0-9_]+[a-z0-9]*\b))*")
FORMAT = re.compile(r"%[-+ #0]*[\d*]*(?:\.[\d*]+)?(?:hh|h|ll|l|z)?[a-zA-Z]")
FOLDERS = (
    "cgpu",
    "hook",
    "install",
    "kmod/core",
    "kmod/daemon",
    "kmod/module",
    "kmod/check",
    "runtime_config",
)


def messages(repository: Path) -> set[str]:
    """Return every text of the sources that could be a message."""
    found: set[str] = set()
    for folder in FOLDERS:
        for path in sorted((repository / folder).rglob("*")):
            if path.suffix == ".py":
                found |= set(of_python(path.read_text()))
            elif path.suffix in (".c", ".h"):
                found |= set(of_c(path.read_text()))
    return found


def of_python(source: str) -> Iterator[str]:
    """Yield the strings of a Python file, parts that stand side by side joined."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            parts = (str(part.value) if isinstance(part, ast.Constant) else GAP for part in node.values)
            yield "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield FORMAT.sub(GAP, node.value)


def of_c(source: str) -> Iterator[str]:
    """Yield the strings of a C file, parts that stand side by side joined."""
    for run in RUN.findall(source):
        text = "".join(part[1:-1] if part else GAP for part in PART.findall(run))
        text = text.replace("\\n", "").replace('\\"', '"')
        yield FORMAT.sub(GAP, text).replace(f"%{GAP}", GAP)


def is_said(message: str, texts: set[str]) -> bool:
    """Tell whether a text has all parts of a message, in order; the message may leave parts out."""
    pattern = re.compile(".*".join(re.escape(part.strip()) for part in message.split(GAP)), re.DOTALL)
    return any(pattern.search(text) for text in texts)
