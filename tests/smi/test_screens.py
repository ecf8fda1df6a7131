# SPDX-License-Identifier: Apache-2.0
"""Whole runs of cgpu-smi against a tree of plain files, compared with kept screens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cgpu import paths
from cgpu.smi import main as smi
from cgpu.smi import names

from .conftest import TRAINER

GOLDEN = Path(__file__).with_name("golden")
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00")


@pytest.fixture(autouse=True)
def engines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one engine answer that knows the trainer."""
    monkeypatch.setattr(names, "sources", lambda: [lambda: {TRAINER: "trainer"}])


def screen(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what a successful run prints, with the time replaced."""
    assert smi.main(arguments) == 0
    return TIME.sub("TIME", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("golden", "options"),
    [
        ("table.txt", []),
        ("one_gpu.txt", ["-i", "1"]),
        ("look.json", ["--json"]),
        ("look.csv", ["--csv"]),
    ],
)
def test_screen(tree: Path, capsys: pytest.CaptureFixture[str], golden: str, options: list[str]) -> None:
    """The output is the kept one, character by character."""
    assert screen(capsys, "--tree", str(tree), *options) == (GOLDEN / golden).read_text()


@pytest.mark.parametrize("wanted", ["0", "GPU-00000000-1111-2222-3333-444444444444", "GPU-00000000"])
def test_gpu_by_any_name(tree: Path, capsys: pytest.CaptureFixture[str], wanted: str) -> None:
    """A GPU is chosen by index, by UUID and by the start of its UUID."""
    shown = screen(capsys, "--tree", str(tree), "-i", wanted)
    assert "GPU 0:" in shown
    assert "GPU 1:" not in shown


@pytest.mark.parametrize("wanted", ["2", "GPU-", "GPU-ffff", "", "-1"])
def test_unknown_gpu(tree: Path, capsys: pytest.CaptureFixture[str], wanted: str) -> None:
    """A name of no GPU, or of several, is refused with the list of those there are."""
    assert smi.main(["--tree", str(tree), f"--gpu={wanted}"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("cgpu-smi: GPU ")
    assert "0 (GPU-00000000" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("left", ["nothing", "an empty directory"])
def test_no_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str], left: str) -> None:
    """Without an engine one line names the tree and the command that starts it."""
    path = tmp_path / "cgpu_km"
    if left != "nothing":
        path.mkdir()
    assert smi.main(["--tree", str(path)]) == 1
    assert capsys.readouterr().err == (
        f"cgpu-smi: {path}: the engine is not running: {paths.daemon_command('start')}\n"
    )


@pytest.mark.parametrize(
    "arguments", [["-l", "0"], ["-l", "nan"], ["-l", "x"], ["--json", "--csv"], ["extra"]]
)
def test_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong command line ends with status 2 and says what is accepted."""
    with pytest.raises(SystemExit) as ended:
        smi.main(arguments)
    assert ended.value.code == 2
    assert "usage: cgpu-smi" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "many", "-1", "1 2", "1" * 100])
def test_strange_node(tree: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    """A node that holds no number is reported by its path, in one line."""
    (tree / "0" / "policy").write_text(content)
    assert smi.main(["--tree", str(tree)]) == 1
    error = capsys.readouterr().err
    assert "0/policy" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("content", ["", "PID: 1 Mem: 2", "Free: 1\nPID: x Mem: 1", "Free: -1", "nonsense"])
def test_strange_meminfo(tree: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    """A meminfo that is not as agreed is reported in one line."""
    (tree / "0" / "web" / "meminfo").write_text(content)
    assert smi.main(["--tree", str(tree)]) == 1
    assert capsys.readouterr().err.startswith("cgpu-smi: meminfo: ")
