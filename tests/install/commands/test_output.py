# SPDX-License-Identifier: Apache-2.0
"""The commands print to whatever their caller has left them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from cgpu.install.commands import install as install_command

EXPLAIN = (sys.executable, "-m", "cgpu.main", "config", "explain")
# Says which files have the numbers of the standard streams, and that what is opened next has none of them.
LOOK = """
import os, sys
from cgpu import main
def look(words):
    with open("/dev/null") as other:
        print("out", flush=True)
        sys.stderr.write(str(other.fileno()))
        sys.exit(0 if other.fileno() > 2 and sys.stdin.read() == "" else 9)
sys.modules["look"] = type(sys)("look")
sys.modules["look"].main = look
main.SUBCOMMANDS["look"] = main.Subcommand("look", "")
sys.exit(main.main(["look"]))
"""


def shell(redirections: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command with the redirections of a shell."""
    return subprocess.run(
        ["sh", "-c", f'"$@" {redirections}', "sh", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams(closed: str) -> None:
    """A caller without standard streams gets the work done; no file takes their numbers."""
    done = shell(closed, *EXPLAIN)
    assert (done.returncode, done.stderr) == (0, "")
    assert shell(closed, sys.executable, "-c", LOOK).returncode == 0


def test_a_full_disk() -> None:
    """What could not be printed is said in one line."""
    done = shell(">/dev/full", *EXPLAIN)
    assert done.returncode == 1
    assert done.stderr == "cgpu: standard output: No space left on device\n"


def test_a_reader_who_leaves() -> None:
    """Who has seen enough ends it, as it ends other programs."""
    done = shell("| head -n 0; echo $?", "sh", "-c", '"$@"; echo $? >&2', "sh", *EXPLAIN)
    assert done.stderr in ("141\n", "0\n")  # 0: all was in the pipe before head had ended


def test_a_locale_that_lacks_characters() -> None:
    """A character that cannot be printed ends nothing."""
    work = "import sys; from cgpu import main; main._streams(); print('gr\\u00f6\\u00dfe \\udcff')"
    said = subprocess.run(
        [sys.executable, "-c", work],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert said.stdout == b"gr\\xf6\\xdfe \\udcff\n"


def test_a_terminal_is_not_steered(capsys: pytest.CaptureFixture[str]) -> None:
    """Names and lines of files are shown with what would steer a terminal written out."""
    install_command.say("a\x1b[31m\tö\r\x9b1\x00")
    assert capsys.readouterr().out == "a\\x1b[31m\tö\\r\\x9b1\\x00\n"
