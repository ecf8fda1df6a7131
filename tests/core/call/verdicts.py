# SPDX-License-Identifier: Apache-2.0
"""What the tests of judged classes and controls share: the tables, and a repository like the driver's."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
ABI = ROOT / "kmod" / "abi"
TRACES = sorted((ROOT / "tests" / "trace" / "real_library").glob("*.gz"))

Json = dict[str, Any]


def table(name: str) -> Json:
    """Return a file of the driver's data."""
    found: Json = json.loads((ABI / name).read_text())
    return found


def recorded() -> list[Json]:
    """Return the calls that NVIDIA's programs were recorded with."""
    lines = [line for path in TRACES for line in gzip.decompress(path.read_bytes()).splitlines()]
    return [json.loads(line) for line in lines]


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
