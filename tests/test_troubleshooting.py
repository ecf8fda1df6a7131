# SPDX-License-Identifier: Apache-2.0
"""The messages that the page on troubleshooting quotes are in the sources."""

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
ROW = re.compile(r"^\| (`[^|]+`) \|(.*)\|$", re.MULTILINE)
QUOTED = re.compile(r"`([^`]+)`")
FOREIGN = re.compile(r"\(a message of \w+\) $")
# Messages of container engines.
OTHERS = (
    "could not select device driver … with capabilities: [[gpu]]",
    "unknown or invalid runtime name: …",
    "default OCI runtime … not found: invalid argument",
    'could not select device driver "cdi" with capabilities: []',
    "failed to connect with seccomp agent specified in the seccomp profile: …",
)
DRIVERS = ("NVRM: nvAssertOkFailedNoLog: Assertion failed: Out of memory [NV_ERR_NO_MEMORY] …",)
# No test here hears these: of a kernel that is locked down, of a container that has lost its devices.
UNHEARD = (
    "modprobe: ERROR: could not insert 'cgpu_km': Key was rejected by service",
    "Failed to initialize NVML: Unknown Error",
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


def test_every_message_of_the_page_exists(repository: Path) -> None:
    """No cure is for a message that nobody says; those of other programs are marked as theirs."""
    texts = messages(repository)
    found = ROW.findall((repository / "docs/troubleshooting.md").read_text())
    ours = [one for cell, cure in found if not FOREIGN.search(cure) for one in QUOTED.findall(cell)]
    foreign = [one for cell, cure in found if FOREIGN.search(cure) for one in QUOTED.findall(cell)]
    assert len(ours) > 70
    assert [one for one in ours if not is_said(one, texts)] == []
    assert sorted(foreign) == sorted([*OTHERS, *DRIVERS, *UNHEARD])
