# SPDX-License-Identifier: Apache-2.0
"""What the tests of judged classes and controls share: the tables, and a repository like the driver's."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
ABI = ROOT / "kmod" / "abi"
CLIENTS = Path(__file__).with_name("nvidia_clients.json")

Json = dict[str, Any]


def table(name: str) -> Json:
    """Return a file of the driver's data."""
    found: Json = json.loads((ABI / name).read_text())
    return found


def client_numbers(kind: str) -> set[int]:
    """Return the classes, or the controls, that NVIDIA's clients of both versions ask for."""
    versions = json.loads(CLIENTS.read_text())["clients"].values()
    return {int(number, 16) for clients in versions for client in clients.values() for number in client[kind]}


def run_on_copies(
    folder: Path, files: tuple[str, ...], changed: Mapping[str, str], *words: str
) -> subprocess.CompletedProcess[str]:
    """Run a program of kmod/abi on copies of files, some with another text. words: its name and arguments."""
    for name in files:
        (folder / name).write_text(changed.get(name) or (ABI / name).read_text())
    command = [sys.executable, "-I", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def make_clone(repository: Path, tags: dict[str, dict[str, str]]) -> Path:
    """Make a repository with these tags, each with the files that it changes; return it."""
    repository.mkdir()

    def git(*words: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *identity, "-C", repository, *words], check=True, capture_output=True)

    git("init", "-q")
    for tag, files in tags.items():
        for path, text in files.items():
            (repository / path).parent.mkdir(parents=True, exist_ok=True)
            (repository / path).write_text(text)
        git("add", ".")
        git("commit", "-q", "-m", tag)
        git("tag", tag)
    return repository
