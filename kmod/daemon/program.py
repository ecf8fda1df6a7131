# SPDX-License-Identifier: Apache-2.0
"""The start of cgpud as a process: its command line, environment and limit of descriptors."""

from __future__ import annotations

import json
import os
import resource
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cgpu
from cgpu.errors import CgpuError

MODULE = "cgpu.kmod.daemon.main"
PASSED_ON = ("PATH", "LANG", "LC_ALL", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True)
class Program:
    """A cgpud, of this version or another: its command line, and where its Python finds the package."""

    argv: tuple[str, ...]
    python_path: str | None = None

    def command(self, *arguments: str) -> list[str]:
        """Return the command line with these arguments."""
        return [*self.argv, *arguments]

    def environment(self) -> dict[str, str]:
        """Return the variables of our environment by which Python finds the package."""
        passed_on = {key: os.environ[key] for key in PASSED_ON if key in os.environ}
        return passed_on if self.python_path is None else {**passed_on, "PYTHONPATH": self.python_path}

    def text(self) -> str:
        """Return it as one line, for parse()."""
        return json.dumps(asdict(self))


def own() -> Program:
    """Return the very package that runs here, from wherever it was started.

    A process that runs without site packages, as a bundle's commands do, starts the daemon so too.
    """
    path = str(Path(cgpu.__file__).resolve().parent.parent)
    isolated = ("-S",) if sys.flags.no_site else ()
    return Program((sys.executable, "-P", *isolated, "-m", MODULE), path)


def parse(text: str) -> Program:
    """Read a program's one line. Raises CgpuError."""
    try:
        return of(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise CgpuError("a program is not given as JSON") from error


def of(found: Any) -> Program:
    """Check a message's description of a program. Raises CgpuError."""
    argv = found.get("argv") if isinstance(found, dict) else None
    path = found.get("python_path") if isinstance(found, dict) else None
    if not isinstance(argv, list) or not argv or not all(isinstance(word, str) for word in argv):
        raise CgpuError("a program is given without its command line")
    if not Path(argv[0]).is_absolute() or not os.access(argv[0], os.X_OK) or Path(argv[0]).is_dir():
        raise CgpuError(f"{argv[0]}: expected the absolute path of a cgpud that can be executed")
    if path is not None and not isinstance(path, str):
        raise CgpuError("a program is given with a search path that is none")
    return Program(tuple(argv), path)


def allow_all_descriptors() -> None:
    """Raise this process's limit, and its children's, as far as the machine lets it.

    The listeners of all containers are among the daemon's descriptors.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
