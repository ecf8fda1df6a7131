# SPDX-License-Identifier: Apache-2.0
"""A repository like the driver's, with a commit for each of its tags."""

from __future__ import annotations

import subprocess
from pathlib import Path


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
