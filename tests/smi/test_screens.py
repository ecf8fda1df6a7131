# SPDX-License-Identifier: Apache-2.0
"""Whole runs of cgpu-smi against a tree of plain files, compared with kept screens."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cgpu import paths
from cgpu.smi import collect, names
from cgpu.smi import main as smi

from .conftest import TRAINER

GOLDEN = Path(__file__).with_name("golden")
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00")


class Clock:
    """Time that goes on when somebody sleeps; meanwhile the trainer has a quarter of the first card."""

    def __init__(self, tree: Path) -> None:
        self.now = 1000.0
        self.slept: list[float] = []
        self.usage = tree / "0" / TRAINER[:12] / "usage"

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)
        if self.usage.exists():
            self.usage.write_text(f"{int(self.usage.read_text()) + int(seconds * 250_000_000)}\n")


@pytest.fixture(autouse=True)
def clock(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock that cgpu-smi goes by."""
    made = Clock(tree)
    monkeypatch.setattr(smi, "sleep", made.sleep)
    monkeypatch.setattr(collect, "monotonic", lambda: made.now)
    return made


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


def test_reserved_and_unused(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is reserved and that no container has is promised, and is named on the card's line."""
    lines = [f"one {6100 << 20} 1 0 {TRAINER}", f"two {3000 << 20} 1 0 -"]
    (tree / "0" / "reserved").write_text("\n".join(lines) + "\n")
    (tree / "1" / "reserved").write_text("")
    shown = screen(capsys, "--tree", str(tree))
    assert "15143 of 15109 MiB promised, 3057 of them reserved and unused\n" in shown
    assert " 0 of 15109 MiB promised\n" in shown
    gpus = json.loads(screen(capsys, "--tree", str(tree), "--json"))["gpus"]
    assert [gpu["memory_reserved_bytes"] for gpu in gpus] == [3057 << 20, 0]
    (tree / "0" / "reserved").write_text("one two three\n")
    assert "12086 of 15109 MiB promised\n" in screen(capsys, "--tree", str(tree))


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
    several = wanted == "GPU-"
    assert error.startswith(
        f"cgpu-smi: {'GPU GPU- stands for several GPUs' if several else f'no GPU {wanted} here'}; available: "
    )
    assert "0 (GPU-00000000" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("left", ["nothing", "an empty directory"])
def test_no_engine(tmp_path: Path, capsys: pytest.CaptureFixture[str], left: str) -> None:
    """Without an engine one line names the tree and the command that starts it."""
    path = tmp_path / "other"
    if left != "nothing":
        path.mkdir()
    assert smi.main(["--tree", str(path)]) == 1
    assert capsys.readouterr().err == (
        f"cgpu-smi: the engine at {path} is not running, so containers with a GPU slice cannot start; "
        f"start it: {paths.daemon_command('start')}\n"
    )


@pytest.mark.parametrize(
    "arguments", [["-l", "0"], ["-l", "nan"], ["-l", "x"], ["--json", "--csv"], ["extra"]]
)
def test_usage(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong command line ends with status 2 and says what is expected."""
    with pytest.raises(SystemExit) as ended:
        smi.main(arguments)
    assert ended.value.code == 2
    assert capsys.readouterr().err.endswith("; see: cgpu-smi --help\n")


GPU_NODES = ("policy", "max_inst", "prio_ratio", "memtotal", "uuid", "name", "sched")
CONTAINER_NODES = ("memsize", "meminfo", "owner", "weight", "highprio", "usage")
WRONG = [
    "",
    "many",
    "-1",
    "1 2",
    "1" * 100,
    "\0\xff",
    "a" * 65537,
    "Free: -1",
    "Free: 1\nPID: x Mem: 1",
    "=",
    "= ==",
]


@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]])
@pytest.mark.parametrize("node", [*GPU_NODES, *(f"web/{node}" for node in CONTAINER_NODES)])
def test_wrong_and_missing_nodes(
    tree: Path, capsys: pytest.CaptureFixture[str], node: str, form: list[str]
) -> None:
    """Whatever a node holds, all that other nodes say is shown."""
    for content in WRONG:
        (tree / "0" / node).write_text(content)
        shown = screen(capsys, "--tree", str(tree), *form)
        assert "trainer" in shown, content
        assert ("25" in shown) is (node != "sched"), content
    (tree / "0" / node).unlink()
    shown = screen(capsys, "--tree", str(tree), *form)
    assert "trainer" in shown
    if form == ["--json"]:
        json.loads(shown)


@pytest.mark.parametrize(
    ("node", "cells"),
    [
        ("web/memsize", "web           -                               0%     50%         N/A         N/A"),
        ("web/meminfo", "web           -                               0%     50%         N/A    6043 MiB"),
        ("web/usage", "web           -                              N/A     50%       0 MiB    6043 MiB"),
        ("web/weight", "web           -                               0%     N/A       0 MiB    6043 MiB"),
        ("policy", "web           -                               0%     N/A       0 MiB    6043 MiB"),
        ("policy", "GPU 0: Tesla T4 (GPU-00000000), policy N/A (unknown, by timeslices), 12086 of"),
        ("memtotal", "12086 of N/A MiB promised"),
        ("name", "GPU 0: N/A (GPU-00000000)"),
        ("uuid", "GPU 0: Tesla T4 (N/A)"),
    ],
)
def test_not_available(tree: Path, capsys: pytest.CaptureFixture[str], node: str, cells: str) -> None:
    """What cannot be known is N/A, and nothing else."""
    (tree / "0" / node).unlink()
    assert cells in screen(capsys, "--tree", str(tree))


@pytest.mark.parametrize(
    ("sched", "head", "notes"),
    [
        (
            "slice=500000 resolution=40000 usage_from=gates divided_by=gates",
            "(preemptive, by gates)",
            (
                "GPU-UTIL  measured between gates, exact to 0.04 ms, over 0.5 s\n"
                "LIMIT     by policy and weights, kept by gates; a unit of weight is 0.5 ms\n"
            ),
        ),
        (
            "divided_by=nobody usage_from=samples resolution=167000000 slice=2000000",
            "(preemptive, not enforced)",
            (
                "GPU-UTIL  from the driver's samples, exact to 167 ms, over 0.5 s\n"
                "LIMIT     by policy and weights, kept by nobody: the engine's log says why\n"
            ),
        ),
        (
            "divided_by=time_slices usage_from=samples resolution=1000000000 slice=99950000",
            "(preemptive, by timeslices)",
            (
                "GPU-UTIL  from the driver's samples, exact to 1000 ms, over 2.0 s\n"
                "LIMIT     by policy and weights, kept by the card's timeslices; a unit of weight is 100 ms\n"
            ),
        ),
        (
            "divided_by=driver usage_from=none resolution=0 slice=2000000",
            "(preemptive, by the driver)",
            "GPU-UTIL  not measured\nLIMIT     the driver's own scheduling, as without slices\n",
        ),
        (
            "divided_by=magic usage_from=oracle resolution=-1 slice=x nonsense",
            "(preemptive)",
            (
                "GPU-UTIL  the engine does not say how it is measured\n"
                "LIMIT     by policy and weights; the engine does not say whether it is kept\n"
            ),
        ),
    ],
)
def test_scheduling(
    tree: Path, capsys: pytest.CaptureFixture[str], sched: str, head: str, notes: str
) -> None:
    """The card's line says who divides its time; the last two lines say what is behind the figures."""
    (tree / "0" / "sched").write_text(f"{sched}\n")
    shown = screen(capsys, "--tree", str(tree), "-i", "0")
    assert head in shown.splitlines()[0]
    assert shown.endswith(notes)


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
    """It comes after half a second, later where measuring is coarse, at once where there is none."""
    (tree / "0" / "sched").write_text(sched)
    screen(capsys, "--tree", str(tree))
    assert clock.slept == [waited]


def test_an_engine_that_only_counts(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Where the engine does not say how it measures, a counter that is not 0 is believed."""
    (tree / "0" / "sched").unlink()
    assert "25%" not in screen(capsys, "--tree", str(tree), "-i", "0")
    (tree / "0" / TRAINER[:12] / "usage").write_text("1\n")
    shown = screen(capsys, "--tree", str(tree), "-i", "0")
    assert "25%    100%" in shown
    assert "N/A     50%" in shown
