# SPDX-License-Identifier: Apache-2.0
"""cgpu top where there is no terminal, on a terminal, and without what it needs."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cgpu.smi import names
from cgpu.top import main as top
from cgpu.top.reading import process
from tests.smi.conftest import TRAINER, tree

__all__ = ["tree"]  # a fixture

COMMAND = [sys.executable, "-m", "cgpu.main", "top"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """No container engine is asked, nothing waits, and text has its usual width whatever the terminal has."""
    monkeypatch.setattr(names, "sources", lambda: [lambda: {TRAINER: "trainer"}])
    monkeypatch.setattr(top, "sleep", lambda _: None)
    monkeypatch.setattr(shutil, "get_terminal_size", lambda size=(80, 24): os.terminal_size(size))
    monkeypatch.delenv("COLUMNS", raising=False)


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert top.main(arguments) == 0
    return capsys.readouterr().out


def test_not_a_terminal(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One view as text, with refusals by the entry stat; where that cannot be read the rest is shown."""
    row = printed(capsys, "--once", "--tree", str(tree)).splitlines()[4]
    assert row.split()[-3:] == ["7", "2", "1"]
    for stat in tree.rglob("stat"):
        stat.unlink()
    lines = printed(capsys, "--tree", str(tree)).splitlines()
    assert [line.split()[1] for line in lines[4:]] == ["trainer", "web"]
    assert "[|    17%]" in lines[4]
    assert lines[4].split()[-4:] == ["N/A", "N/A", "2", "1"]


def test_batch_filter_and_gpu(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So many views, of what was asked for."""
    out = printed(capsys, "--batch", "3", "--tree", str(tree), "-F", "web", "-i", "0", "-s", "name")
    assert out.count("cgpu top ") == 3
    assert out.count("  0 web ") == 3
    assert "trainer" not in out
    assert "  1 T4" not in out


def test_engine_goes_during_a_batch(
    tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line says so, and the rest follows."""
    version = (tree / "version").read_text()
    steps = iter([version, None, version])

    def sleep(_: float) -> None:
        text = next(steps)
        (tree / "version").unlink(missing_ok=True)
        if text is not None:
            (tree / "version").write_text(text)

    monkeypatch.setattr(top, "sleep", sleep)
    parts = printed(capsys, "--batch", "3", "--tree", str(tree)).split("\n\n")
    assert ["is not running" in part for part in parts] == [False, True, False]


def test_no_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line with the command that helps."""
    assert top.main(["--tree", str(tmp_path / "none")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("cgpu top: the engine at ")
    assert error.count("\n") == 1


def test_users_who_are_not_root(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """They see what is published, or how to see more."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert top.main([]) == 1
    assert "only root sees the slices of this node" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["--batch", "0"], ["-d", "0"], ["-d", "nan"], ["-s", "colour"], ["--once", "--batch", "2"]]
)
def test_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2 and one line."""
    with pytest.raises(SystemExit) as ended:
        top.main(words)
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_imports_nothing_of_the_screen_without_a_terminal(tree: Path) -> None:
    """Text needs no textual, and neither does another subcommand."""
    program = (
        "import sys; from cgpu.main import main; main(['--help']); "
        "import cgpu.top.main; assert not {'textual', 'rich'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL, timeout=240)


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
    status, seen = in_terminal(["--tree", str(tree)], b"6043M", key)
    assert status == 0, seen[-2000:]
    assert b"\x1b[?1049h" in seen
    assert b"\x1b[?1049l" in seen


def test_dumb_terminal(tree: Path) -> None:
    """Text, as without a terminal."""
    status, seen = in_terminal(["--tree", str(tree)], b"never", b"", TERM="dumb")
    assert status == 0
    assert b"\x1b" not in seen
    assert b"6043M" in seen


def test_without_textual(tree: Path, tmp_path: Path) -> None:
    """One line says how to get Textual, and which command works without."""
    (tmp_path / "hidden/textual").mkdir(parents=True)
    (tmp_path / "hidden/textual/__init__.py").write_text("raise ModuleNotFoundError(name='textual')\n")
    status, seen = in_terminal(["--tree", str(tree)], b"never", b"", PYTHONPATH=str(tmp_path / "hidden"))
    assert status == 1
    assert b"pip install 'opencgpu[top]'" in seen
    assert seen.count(b"\n") == 1


def test_process(tmp_path: Path) -> None:
    """Name and user; one that is gone has neither. A command line, which is hostile memory, is not read."""
    folder = tmp_path / "7"
    folder.mkdir()
    (folder / "comm").write_bytes(b"a\nb\xff\n")
    (folder / "status").write_text("Name:\ta\\nb\nUid:\t0\t0\t0\t0\n")
    found = process((7, 1), str(tmp_path))
    assert (found.user, found.command) == ("root", "a\nb\ufffd")
    gone = process((8, 1), str(tmp_path))
    assert (gone.user, gone.command, gone.held) == (None, None, 1)
