# SPDX-License-Identifier: Apache-2.0
"""The page on troubleshooting has the messages that the sources have."""

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
ROW = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
# Modules whose errors a user meets: each of them has a place on the page.
MET = (
    "hook",
    "runtime_config/oci_runtime",
    "cgpu/config/apply.py",
    "cgpu/request/spec.py",
    "cgpu/config/load.py",
    "cgpu/request/device_nodes.py",
    "cgpu/request/hami.py",
    "cgpu/request/names.py",
    "cgpu/config/effective.py",
    "cgpu/client/registration_error.py",
    "cgpu/request/resolve.py",
    "cgpu/request/by_shares.py",
    "cgpu/client/tree.py",
    "kmod/daemon/driver_check.py",
    "kmod/daemon/processes/lock.py",
    "kmod/daemon/main.py",
    "kmod/daemon/manage.py",
    "kmod/daemon/service.py",
    "kmod/daemon/simulate.py",
    "kmod/daemon/tree/tree_fs.py",
)
RAISED = re.compile(r"(?:Error|refuse)$")
# Reasons that stand within another message, and faults of a program that calls us wrong.
PARTS = (
    "import this package as",
    "is not JSON",
    "there is more text after its end",
    "it is not UTF-8",
    "it nests too deep",
    "there is no value at character",
    "is not of JSON",
    "appears twice in one object",
    "no such configuration key",
    "only a part was taken",
)
# Messages of container engines; tests/integration/node/test_others_messages.py has them said.
OTHERS = (
    "could not select device driver … with capabilities: [[gpu]]",
    "unknown or invalid runtime name: …",
    "default OCI runtime … not found: invalid argument",
    'could not select device driver "cdi" with capabilities: []',
    "failed to connect with seccomp agent specified in the seccomp profile: …",
)
# No test here hears these: of a kernel that is locked down, of a container that has lost its devices.
UNHEARD = (
    "modprobe: ERROR: could not insert 'cgpu_km': Key was rejected by service",
    "Failed to initialize NVML: Unknown Error",
)
LOGGED = re.compile(r"pr_(?:err|warn)\w*\(([^;]*);")


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


def page(repository: Path) -> list[str]:
    return ROW.findall((repository / "docs/troubleshooting.md").read_text())


def raised(path: Path) -> Iterator[str]:
    """Yield the messages of the errors that a file raises."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if RAISED.search(name) and name.endswith(("CgpuError", "DownError", "RegistrationError", "refuse")):
            yield from of_python(ast.unparse(node.args[0])) if is_text(node.args[0]) else ()


def is_text(node: ast.expr) -> bool:
    """Tell whether an argument is a text as it stands."""
    return isinstance(node, ast.JoinedStr | ast.Constant)


def met(repository: Path) -> Iterator[Path]:
    for place in MET:
        path = repository / place
        yield from [path] if path.is_file() else sorted(path.rglob("*.py"))


def test_every_message_of_the_page_exists(repository: Path) -> None:
    """No cure is for a message that nobody says; those of other programs are marked as theirs."""
    texts = messages(repository)
    page_text = (repository / "docs/troubleshooting.md").read_text()
    foreign = re.findall(r"^\| `([^`]+)` \|[^|]*\(a message of \w+\) \|$", page_text, re.MULTILINE)
    found = page(repository)
    assert len(found) > 100
    assert [one for one in found if one not in foreign and not is_said(one, texts)] == []
    assert sorted(foreign) == sorted([*OTHERS, *UNHEARD])


def test_every_error_has_a_place(repository: Path) -> None:
    """Each error that a user can meet is on the page."""
    known = page(repository)
    missing = []
    for path in met(repository):
        for text in raised(path):
            letters = text.replace(GAP, "").strip(" :;,.()")
            if len(letters) < 8 or any(part in text for part in PARTS):
                continue
            if not any(is_said(one, {text}) for one in known if len(one.replace(GAP, "")) > 5):
                missing.append(f"{path.relative_to(repository)}: {text}")
    assert missing == []


def test_the_module_s_log_has_a_place(repository: Path) -> None:
    """Each warning of the kernel module is on the page."""
    known = page(repository)
    lines = [
        text
        for path in sorted((repository / "kmod/module").rglob("*.c"))
        for found in LOGGED.findall(path.read_text())
        for text in of_c(found)
        if len(text.replace(GAP, "")) > 8
    ]
    assert len(lines) > 15
    assert [text for text in lines if not any(is_said(one, {text}) for one in known)] == []


def test_a_message_that_nobody_says_is_found() -> None:
    """The comparison tells other texts apart, and takes parts in their order only."""
    texts = {"container …: is gone"}
    assert is_said("container …: is gone", texts)
    assert not is_said("is gone: container", texts)
    assert not is_said("container …: is lost", texts)
    assert list(of_c('printf("a %s" "b %u\\n", x);')) == ["a …b …"]
    assert list(of_python('raise E(f"a {x}: " "b")')) == ["a …: b"]
