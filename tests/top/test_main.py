# SPDX-License-Identifier: Apache-2.0
"""cgpu top on a terminal, where there is none, and without what it needs."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cgpu.top import main as top
from tests.smi.conftest import TRAINER, tree

__all__ = ["tree"]  # a fixture

COMMAND = [sys.executable, "-m", "cgpu.main", "top"]


def in_terminal(arguments: list[str], until: bytes, keys: bytes, **environment: str) -> tuple[int, bytes]:
    """Run it in a terminal until it shows something, then press keys; return its status and all it wrote."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [*COMMAND, *arguments], {**os.environ, "TERM": "xterm", **environment})
    seen, deadline = b"", time.monotonic() + 120
    while time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.5)[0]:
            try:
                seen += os.read(terminal, 1 << 16)
            except OSError:
                break
        if until in seen and keys:
            os.write(terminal, keys)
            keys = b""
    else:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), seen


@pytest.mark.parametrize("key", [b"\x03", b"\x1b[21~"])
def test_terminal(tree: Path, key: bytes) -> None:
    """A screen, which F10 and an interrupt leave, with the terminal as it was."""
    status, seen = in_terminal(["--tree", str(tree)], TRAINER[:12].encode(), key)
    assert status == 0, seen[-2000:]
    assert b"\x1b[?1049h" in seen
    assert b"\x1b[?1049l" in seen


def test_no_terminal(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a terminal, and on a dumb one, each view is cgpu-smi's table, until an interrupt ends it."""
    assert top.main(["--tree", str(tree), "-n", "2", "-d", "1"]) == 0
    first, second = capsys.readouterr().out.split("CGPU-SMI")[1:]
    assert TRAINER[:12] in first
    assert TRAINER[:12] in second
    status, seen = in_terminal(["--tree", str(tree)], TRAINER[:12].encode(), b"\x03", TERM="dumb")
    assert status == 0
    assert b"CGPU-SMI" in seen
    assert b"\x1b" not in seen


def test_views_in_a_terminal(tree: Path) -> None:
    """A number of views is text in a terminal, too."""
    status, seen = in_terminal(["--tree", str(tree), "-n", "1"], b"never", b"")
    assert (status, seen.count(b"CGPU-SMI")) == (0, 1)
    assert b"\x1b" not in seen


def test_a_reader_that_goes(tree: Path) -> None:
    """A pipe that is closed ends it quietly, as SIGPIPE ends other programs."""
    words = [*COMMAND, "--tree", str(tree), "-d", "1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        assert running.wait(timeout=240) == 141
        assert running.stderr.read() == b""


def test_no_engine(tmp_path: Path) -> None:
    """One line with the command that helps, and no screen."""
    status, seen = in_terminal(["--tree", str(tmp_path / "none")], b"never", b"")
    assert status == 1
    assert seen.startswith(b"cgpu top: the engine at ")
    assert seen.count(b"\n") == 1


@pytest.mark.parametrize("words", [["-d", "0"], ["-d", "nan"], ["--batch", "2"], ["-n", "0"], ["-n", "x"]])
def test_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2 and one line."""
    with pytest.raises(SystemExit) as ended:
        top.main(words)
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_imports_nothing_of_the_screen_without_a_terminal() -> None:
    """No other subcommand needs textual."""
    program = (
        "import sys; from cgpu.main import main; main(['--help']); "
        "import cgpu.top.main; assert not {'textual', 'rich'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL, timeout=240)


def test_without_textual(tree: Path, tmp_path: Path) -> None:
    """One line says how to get Textual, and which command works without."""
    (tmp_path / "hidden/textual").mkdir(parents=True)
    (tmp_path / "hidden/textual/__init__.py").write_text("raise ModuleNotFoundError(name='textual')\n")
    status, seen = in_terminal(["--tree", str(tree)], b"never", b"", PYTHONPATH=str(tmp_path / "hidden"))
    assert status == 1
    assert b"pip install 'opencgpu[top]'" in seen
    assert seen.count(b"\n") == 1
