# SPDX-License-Identifier: Apache-2.0
"""Whole runs of cgpu-smi against a tree of plain files, compared with kept screens."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cgpu import main as cgpu
from cgpu.client import cards
from cgpu.smi import main as smi
from cgpu.smi.render import FIELDS

GOLDEN = Path(__file__).with_name("golden")
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00|\w{3} \w{3} [ \d]\d [\d:]{8} \d{4}")


class Clock:
    """Time that goes on when a program sleeps; meanwhile the trainer has a quarter of the first card."""

    def __init__(self, tree: Path) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self.stat = tree / "0" / "stat"

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)
        if self.stat.exists():
            card, trainer, *others = self.stat.read_text().split("\n")
            grown = [
                line.replace(" usage=0", f" usage={int(seconds * part * 1e9)}")
                for line, part in ((card, 0.5), (trainer, 0.25))
            ]
            self.stat.write_text("\n".join((*grown, *others)))


@pytest.fixture(autouse=True)
def clock(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(tree)
    monkeypatch.setattr(smi, "sleep", made.sleep)
    monkeypatch.setattr(cards, "monotonic", lambda: made.now)
    return made


@pytest.fixture(autouse=True)
def one_process_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cards, "process_name", lambda pid: f"python{pid}" if pid == 4711 else None)


def screen(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert smi.main(arguments) == 0
    return TIME.sub("TIME", capsys.readouterr().out)


@pytest.mark.parametrize(
    ("golden", "options"),
    [
        ("table.txt", []),
        ("look.json", ["--json"]),
        ("look.csv", ["--csv"]),
        ("details.txt", ["-q"]),
        ("query.csv", ["--query=gpu,name,memory_used_bytes,limit_percent,high_priority", "--format=csv"]),
    ],
)
def test_screen(tree: Path, capsys: pytest.CaptureFixture[str], golden: str, options: list[str]) -> None:
    """The output is the kept one, character by character."""
    assert screen(capsys, "--tree", str(tree), *options) == (GOLDEN / golden).read_text()


@pytest.mark.parametrize(
    ("words", "golden"),
    [
        ("-q --format=csv,nounits", slice(None)),
        (f"--query={','.join(FIELDS)} --format=csv,noheader,nounits", slice(1, None)),
    ],
)
def test_query_is_csv(tree: Path, capsys: pytest.CaptureFixture[str], words: str, golden: slice) -> None:
    """A query of the usual fields without units has the lines of --csv, the header as it was asked for."""
    lines = (GOLDEN / "look.csv").read_text().splitlines()
    assert screen(capsys, "--tree", str(tree), *words.split()).splitlines() == lines[golden]


def test_the_second_name(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`cgpu smi` is cgpu-smi."""
    assert cgpu.main(["smi", "--tree", str(tree), "--csv"]) == 0
    assert TIME.sub("TIME", capsys.readouterr().out) == (GOLDEN / "look.csv").read_text()


def test_a_card_without_slices(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The tables of a card without slices say that there are none."""
    shown = screen(capsys, "--tree", str(tree), "-i", "1")
    assert "|  No slices found " in shown
    assert "|  No running processes found " in shown


def test_wide(tree: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A wide terminal has room for the whole UUID."""
    assert "|      GPU-00000000          |" in screen(capsys, "--tree", str(tree), "-i", "0")
    monkeypatch.setenv("COLUMNS", "120")
    uuid = "GPU-00000000-1111-2222-3333-444444444444"
    assert f"|      {uuid} " in screen(capsys, "--tree", str(tree), "-i", "0")


def test_reserved_and_unused(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An unused reservation counts as promised, and is named on the card's line."""
    stat = tree / "0" / "stat"
    stat.write_text(stat.read_text().replace(f"promised={12086 << 20}", f"promised={15143 << 20}", 1))
    shown = screen(capsys, "--tree", str(tree))
    assert "|      15143MiB, 3057 unused |" in shown
    assert "|      0MiB  " in shown
    gpus = json.loads(screen(capsys, "--tree", str(tree), "--json"))["gpus"]
    assert [gpu["memory_reserved_bytes"] for gpu in gpus] == [3057 << 20, 0]


@pytest.mark.parametrize("wanted", ["0", "GPU-00000000-1111-2222-3333-444444444444", "GPU-00000000"])
def test_gpu_by_any_name(tree: Path, capsys: pytest.CaptureFixture[str], wanted: str) -> None:
    """A GPU is chosen by index, by UUID and by the start of its UUID."""
    shown = screen(capsys, "--tree", str(tree), "-i", wanted)
    assert "|   0  Tesla T4" in shown
    assert "|   1  Tesla T4" not in shown


@pytest.mark.parametrize("wanted", ["2", "GPU-", "GPU-ffff", "", "-1"])
def test_unknown_gpu(tree: Path, capsys: pytest.CaptureFixture[str], wanted: str) -> None:
    """A name of no GPU, or of several, is refused with the list of those there are."""
    assert smi.main(["--tree", str(tree), f"--gpu={wanted}"]) == 1
    error = capsys.readouterr().err
    several = wanted == "GPU-"
    assert error.startswith(
        f"cgpu-smi: {'GPU GPU- stands for several GPUs' if several else f'no GPU {wanted} here'}; available: "
    )
    assert "0 (GPU-00000000" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        "-l 0",
        "-l nan",
        "--watch x",
        "--json --csv",
        "extra",
        "--publish -l 1",
        "--format=csv",
        "--query=",
        "--query=name --csv",
    ],
)
def test_usage(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong command line ends with status 2 and says what is expected."""
    with pytest.raises(SystemExit) as ended:
        smi.main(arguments.split())
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith("; see: cgpu-smi --help\n")


@pytest.mark.parametrize("node", ["stat", "left", "web/meminfo"])
@pytest.mark.parametrize("content", ["many", "1 2 3", "\0\xff", "a" * 65537, "Free: 1\nPID: x Mem: 1"])
def test_wrong_entry(tree: Path, capsys: pytest.CaptureFixture[str], node: str, content: str) -> None:
    """An entry that reads wrong is named in one line, and no figure is guessed."""
    (tree / "0" / node).write_text(content)
    assert smi.main(["--tree", str(tree)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("cgpu-smi: ")
    assert node.rpartition("/")[2] in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("sched", "divided", "told"),
    [
        (
            "slice=500000 resolution=40000 usage_from=gates divided_by=gates",
            "by gates",
            ("gates", 40000, 0.5, "gates", 500000),
        ),
        (
            "divided_by=nobody usage_from=samples resolution=167000000 slice=2000000",
            "not enforced",
            ("samples", 167_000_000, 0.5, "nobody", 2_000_000),
        ),
        (
            "divided_by=time_slices usage_from=samples resolution=1000000000 slice=99950000",
            "by timeslices",
            ("samples", 10**9, 2.0, "time_slices", 99_950_000),
        ),
        (
            "divided_by=driver usage_from=none resolution=0 slice=2000000",
            "by the driver",
            ("none", None, None, "driver", 2_000_000),
        ),
        ("resolution=-1 slice=x nonsense", "N/A", (None,) * 5),
    ],
)
def test_scheduling(
    tree: Path, capsys: pytest.CaptureFixture[str], sched: str, divided: str, told: tuple[object, ...]
) -> None:
    """The card's box says who divides its time; JSON says what is behind the figures."""
    (tree / "0" / "sched").write_text(f"{sched}\n")
    assert f" {divided} |\n" in screen(capsys, "--tree", str(tree), "-i", "0")
    (gpu,) = json.loads(screen(capsys, "--tree", str(tree), "-i", "0", "--json"))["gpus"]
    of = ("source", "resolution_ns", "interval_seconds")
    assert told == (*(gpu[f"utilisation_{key}"] for key in of), gpu["divided_by"], gpu["slice_ns"])


@pytest.mark.parametrize(
    ("sched", "waited"),
    [
        ("usage_from=gates resolution=50000", 0.5),
        ("usage_from=samples resolution=400000000", 0.8),
        ("usage_from=samples resolution=99999999999", 2.0),
        ("usage_from=none", 0.0),
        ("", 0.0),
    ],
)
def test_the_second_look(
    tree: Path, capsys: pytest.CaptureFixture[str], clock: Clock, sched: str, waited: float
) -> None:
    """The second look comes after half a second, later with coarse measuring, at once without any."""
    (tree / "0" / "sched").write_text(sched)
    screen(capsys, "--tree", str(tree))
    assert clock.slept == [waited]
