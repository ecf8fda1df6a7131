# SPDX-License-Identifier: Apache-2.0
"""Parts of virtual machines that are made once and kept in kmod/build/vm, by the digest of their sources."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
STORE = ROOT / "kmod" / "build" / "vm"


def digest(parts: Iterable[bytes]) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(hashlib.sha256(part).digest())
    return whole.hexdigest()[:16]


def run_make(folder: Path, *words: str, timeout: float | None = None) -> None:
    """Build kernel modules in a folder; a build that fails fails the test with its last lines."""
    # Debugging information makes a module twenty times as long to load.
    options = ["--no-print-directory", "-j2", "KCFLAGS=-g0", "CONFIG_DEBUG_INFO_BTF_MODULES="]
    # tests/conftest.py sets it so; another value here would compile all again, in the midst of a test.
    options.append(f"WERROR={os.environ.get('WERROR', '1')}")
    command = ["make", *options, "-C", str(folder), *words]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False, timeout=timeout
    )
    assert done.returncode == 0, f"{' '.join(command)}:\n{(done.stdout + done.stderr)[-6000:]}"


def put(path: Path, data: bytes) -> None:
    """Make a file whole or not at all: another run may look for it meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_bytes(data)
    part.rename(path)
