# SPDX-License-Identifier: Apache-2.0
"""Completion: what the tab key gives in bash and zsh."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from cgpu.install.packaging.completion import write
from cgpu.install.packaging.parsers import programs, subcommands

PROMPT = "ready> "
WAIT_S = 120.0
SAYS = "cgpu() { echo GOT:$*; }; cgpud() { echo GOT:$*; }; "


class Shell:
    """An interactive shell in which `cgpu`, and what else is completed, only say what they were given."""

    def __init__(self, command: Sequence[str], setup: str) -> None:
        """Start it and have it run some lines."""
        self._terminal, inner = pty.openpty()
        environment = {"PATH": "/usr/bin:/bin", "TERM": "dumb", "LANG": "C.UTF-8", "COLUMNS": "200"}
        self._process = subprocess.Popen(
            command, stdin=inner, stdout=inner, stderr=inner, env=environment, start_new_session=True
        )
        os.close(inner)
        try:
            self.keys(f"PS1='ready''> '; {setup}\n")
        except BaseException:
            self.end()
            raise

    def keys(self, text: str) -> str:
        """Send keys and return what the terminal shows until the next prompt."""
        os.write(self._terminal, text.encode())
        shown = ""
        deadline = time.monotonic() + WAIT_S
        while PROMPT not in shown.partition("\n")[2]:
            left = deadline - time.monotonic()
            assert left > 0, f"no prompt after {text!r}: {shown!r}"
            if select.select([self._terminal], [], [], left)[0]:
                shown += os.read(self._terminal, 65536).decode(errors="replace")
        return shown

    def completed(self, keys: str) -> str:
        """Return the arguments that a command gets whose line is completed with the tab key."""
        found = re.findall(r"^GOT:(.*?)\s*$", self.keys(f"{keys}\t\n"), re.MULTILINE)
        assert len(found) == 1
        return str(found[0])

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._terminal)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("completion")
    write(made / "bash", made / "zsh")
    return made


@pytest.fixture(scope="module", params=["bash", "zsh"])
def shell(request: pytest.FixtureRequest, folder: Path) -> Iterator[Shell]:
    """Start a shell that has the completion as it is installed."""
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed; run: scripts/bootstrap test")
    if request.param == "bash":
        setup = f"{SAYS} for file in {folder}/bash/*; do . $file; done"
        made = Shell(["bash", "--norc", "--noprofile", "-i"], setup)
    else:
        setup = f"{SAYS} fpath=({folder}/zsh $fpath); autoload -Uz compinit; compinit -u -D"
        made = Shell(["zsh", "-f", "-i"], setup)
    yield made
    made.end()


def test_files(folder: Path) -> None:
    """Each command that people call has a file for each shell."""
    assert sorted(path.name for path in (folder / "bash").iterdir()) == sorted(programs())
    assert sorted(path.name for path in (folder / "zsh").iterdir()) == sorted(
        f"_{name}" for name in programs()
    )


def test_options(shell: Shell) -> None:
    """Subcommands are completed, and options of these, of theirs and of other commands."""
    for name in subcommands():
        assert shell.completed(f"cgpu {name[:-1]}") == name
    assert shell.completed("cgpu run --hi") == "run --high-prio"
    assert shell.completed("cgpu config exp") == "config explain"
    assert shell.completed("cgpu config show --js") == "config show --json"
    assert shell.completed("cgpud --foreg") == "--foreground"


def test_files_are_completed(shell: Shell, tmp_path: Path) -> None:
    """A file is completed where an option takes one."""
    (tmp_path / "unusual-name.yaml").touch()
    assert shell.completed(f"cgpud --config {tmp_path}/unus") == f"--config {tmp_path}/unusual-name.yaml"
