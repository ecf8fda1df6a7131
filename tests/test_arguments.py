# SPDX-License-Identifier: Apache-2.0
"""An error in a command line is one line, which names the command that helps."""

from __future__ import annotations

import shlex
import socket
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cgpu.arguments import Parser
from cgpu.install.packaging.parsers import programs, subcommands
from cgpu.main import SUBCOMMANDS, main
from tests.integration.commands import call

WRONG = [[name, "--no-such-option"] for name in SUBCOMMANDS] + [
    ["install", "--engine", "fast"],
    ["uninstall", "--timeout", "-3"],
    ["uninstall", "--timeout", "soon"],
    ["config", "set"],
    ["config", "explain", "--x"],
    ["status", "more"],
    ["top", "-d", "0"],
    ["top", "-d", "nan"],
    ["top", "-d", "1_0"],
    ["top", "--batch", "2"],
    ["gc", "evil\nline"],
]


@pytest.mark.parametrize("words", WRONG)
def test_subcommands(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong option or value of a subcommand ends in one line, and nothing is done."""
    try:
        status = main(words)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    assert status in (2, 125)
    line = capsys.readouterr().err
    assert line.startswith((f"cgpu {words[0]}", f"cgpu-{words[0]}"))
    assert line.count("\n") == 1
    assert "--help" in line or "expected: " in line


@pytest.mark.parametrize("name", [name for name in programs() if name != "cgpu"])
def test_programs(name: str) -> None:
    """A wrong option of a command ends in one line."""
    program = Path(sys.executable).parent / name
    done = call([program, "--no-such-option"])
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith(f"{name}: ")
    assert done.stderr.endswith(f"; see: {name} --help\n")


PARSERS = {**programs(), **{f"cgpu {name}": parser for name, parser in subcommands().items()}}


@pytest.mark.parametrize("name", [name for name in PARSERS if name != "cgpu"])
def test_examples(name: str) -> None:
    """The help of each command shows examples, which it understands."""
    parser = PARSERS[name]
    assert isinstance(parser, Parser)
    assert parser.examples
    shown, program = parser.format_help(), parser.prog.split()
    for line in parser.examples:
        assert f"\n  {line}\n" in shown
        words = shlex.split(line.partition(" -- ")[0])
        assert words[: len(program)] == program
        parser.parse_args(words[len(program) :] + (["--", "x"] if "record" in words else []))


NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
LOAD = """
import sys
from cgpu.config import effective
from cgpu.errors import CgpuError
try:
    effective.load(sys.argv[1])
except CgpuError as error:
    sys.exit(str(error))
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Yield a folder that everybody may enter, and only root may write to. tmp_path's are closed."""
    with tempfile.TemporaryDirectory(prefix="cgpu-open-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.mark.root
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["cgpu", "config", "set", "max_inst", "9"], "cannot be written: Permission denied"),
        (["cgpu-runtime-config", "nvidia", "--config", "PATH"], "cannot be replaced (Permission denied)"),
    ],
)
def test_settings_without_root(open_folder: Path, command: list[str], said: str) -> None:
    """A user who may not write a file is told so, and to be root, in one line."""
    path = str(open_folder / "config.toml")
    program = Path(sys.executable).parent / command[0]
    words = [str(program), *(path if word == "PATH" else word for word in command[1:])]
    done = call([*NOBODY, *words])
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith(f"{said}; run it as root, such as by sudo\n")


@pytest.mark.root
def test_engine_without_root(open_folder: Path) -> None:
    """A user who may not reach a running engine is not told to restart it."""
    run = open_folder / "run"
    run.mkdir(mode=0o700)
    (run / "config.json").write_text("{}")
    status = [str(Path(sys.executable).parent / "cgpud"), "--status", "--run", str(run)]
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(run / "control.sock"))
        listener.listen()
        for command in (status, [sys.executable, "-c", LOAD, str(run / "config.json")]):
            done = call([*NOBODY, *command])
            assert done.returncode == 1
            assert "only root reaches the " in done.stderr
            assert done.stderr.count("\n") == 1
            assert "cgpud --stop" not in done.stderr
