# SPDX-License-Identifier: Apache-2.0
"""A clone of NVIDIA/open-gpu-kernel-modules, of which objects are read without a work tree."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from cgpu.errors import CgpuError


class Clone:
    """A git repository that is read object by object, each once."""

    def __init__(self, path: Path) -> None:
        """Read the repository at a path. Raises CgpuError where there is none."""
        self.path = path
        self.parsed: dict[tuple[Callable[[str], Any], str], Any] = {}
        self._tags = set(self.git("tag").split())

    def git(self, *arguments: str) -> str:
        """Return what git prints. Raises CgpuError."""
        command = ["git", "-C", str(self.path), *arguments]
        try:
            done = subprocess.run(command, check=True, capture_output=True, text=True, errors="replace")
        except OSError as error:
            raise CgpuError(f"git: cannot be started: {error.strerror}") from error
        except subprocess.CalledProcessError as error:
            line = (error.stderr.strip().splitlines() or [f"exit status {error.returncode}"])[-1]
            raise CgpuError(
                f"{self.path}: git {arguments[0]}: {line}; expected a clone of NVIDIA/open-gpu-kernel-modules"
            ) from error
        return done.stdout

    def tags(self) -> set[str]:
        """Return the tags: versions of the driver."""
        return self._tags

    def known(self, tags: Sequence[str]) -> list[str]:
        """Return those of these versions that the clone has."""
        return [tag for tag in tags if tag in self._tags]

    def archive(self, tag: str, paths: Sequence[str], output: Path) -> None:
        """Write a version's files below paths as a tar file. Raises CgpuError."""
        self.git("archive", "--format=tar", f"--output={output}", tag, "--", *paths)

    def files(self, tag: str, folder: str, pattern: str) -> Iterator[tuple[str, str]]:
        """Yield path and object of each file below a folder whose name matches."""
        for line in self.git("ls-tree", "-r", tag, "--", folder).splitlines():
            facts, path = line.split("\t")
            if re.search(pattern, path):
                yield path, facts.split()[2]

    def parse(self, blob: str, parser: Callable[[str], Any]) -> Any:
        """Return what a parser finds in a file; it is asked once, however many tags have the file."""
        if (parser, blob) not in self.parsed:
            self.parsed[parser, blob] = parser(self.git("cat-file", "blob", blob))
        return self.parsed[parser, blob]
