# SPDX-License-Identifier: Apache-2.0
"""--query-gpu and --query-slices: their fields, their forms, and CSV that reads back."""

from __future__ import annotations

import csv
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.errors import one_line
from cgpu.smi import main as smi
from cgpu.smi import query
from cgpu.smi.model import Container, Gpu
from cgpu.smi.node import Versions
from cgpu.smi.render import as_csv

NOW = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
VALUES = {"memsize": 10, "weight": 1, "highprio": 0}
ONE = Container("a", "a", VALUES, used=4, pids=(), engine_time=0)
CARD = Gpu(0, "GPU-1", "Tesla T4", policy=1, max_inst=20, prio_ratio=80, total=10, containers=(ONE,))
NUMBERS = "--query-gpu=index,memory.total"
FORMS = [
    ([NUMBERS], ["index, memory.total [MiB]", "0, 15109 MiB", "1, 15109 MiB"]),
    ([NUMBERS, "--format=csv,noheader"], ["0, 15109 MiB", "1, 15109 MiB"]),
    ([NUMBERS, "--format", "csv,nounits"], ["index, memory.total [MiB]", "0, 15109", "1, 15109"]),
    ([NUMBERS, "--format=csv,nounits,noheader", "-i", "1"], ["1, 15109"]),
    (
        ["--query-slices", "weight, share ,weight"],
        ["weight, share [%], weight", "1, 100.0 %, 1", "1, 50.0 %, 1"],
    ),
]


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smi, "sleep", lambda _: None)


@pytest.mark.parametrize(("words", "lines"), FORMS)
def test_forms(tree: Path, capsys: pytest.CaptureFixture[str], words: list[str], lines: list[str]) -> None:
    """Header and units are there as --format says, the fields in the order in which they were asked for.

    A list may have spaces, and a field more than once.
    """
    assert smi.main(["--tree", str(tree), *words]) == 0
    assert capsys.readouterr().out.splitlines() == lines


@pytest.mark.parametrize("query", ["--query", "-q"])
def test_no_fields(tree: Path, capsys: pytest.CaptureFixture[str], query: str) -> None:
    """--query with --format has the usual fields of the slices, as --query-slices writes these."""
    fields = "gpu_index,container,name,memory.used,memory.total,memory.peak,utilization.gpu,share,refused"
    assert smi.main(["--tree", str(tree), f"--query-slices={fields}", "--format=csv,nounits"]) == 0
    named = capsys.readouterr().out
    assert smi.main(["--tree", str(tree), query, "--format=csv,nounits"]) == 0
    assert capsys.readouterr().out == named
    assert len(named.splitlines()) > 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--query-gpu=index,memory.usd"], "--query-gpu: memory.usd: did you mean memory.used?"),
        (["--query-gpu="], "--query-gpu: an empty name: cgpu-smi --help-query-gpu lists all fields;"),
        (["--query-slices=wieght"], "--query-slices: wieght: did you mean weight?"),
        (
            ["--query-slices=\x1b[2J"],
            "--query-slices: \\x1b[2J: cgpu-smi --help-query-slices lists all fields",
        ),
        (["--query-gpu=index", "--format=xml"], "--format: xml: expected csv, csv,noheader or csv,noheader,"),
        (["--query-gpu=index", "--format=csv,units"], "--format: csv,units: expected csv,"),
        (["--format=csv"], "--format: expected with --query, or with --query-gpu or --query-slices"),
        (["--json", "--format=csv"], "--format: expected with --query, or with --query-gpu or"),
    ],
)
def test_wrong(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown field is refused in one line with the nearest one, or where all are listed."""
    with pytest.raises(SystemExit) as ended:
        smi.main(words)
    error = capsys.readouterr().err
    assert ended.value.code == 2
    assert says in error
    assert error.count("\n") == 1


def test_rounding() -> None:
    """Used and free make the total, although one page shows as a MiB."""
    one = replace(ONE, slice={"memsize": 10 << 20}, used=(4 << 20) + 1)
    views = query.slice_views((replace(CARD, containers=(one,)),), Versions(), NOW)
    wanted = [query.SLICE_FIELDS[f"memory.{name}"] for name in ("total", "used", "free")]
    assert query.rows(wanted, views, query.Format(header=False), first=True) == "10 MiB, 5 MiB, 5 MiB\n"


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_name(name: str, model: str) -> None:
    """Each row is a printable line that reads back, with any names of container and card."""
    card = replace(CARD, model=model, containers=(replace(ONE, name=name),))
    wanted = [query.SLICE_FIELDS[one] for one in ("gpu_name", "name", "weight")]
    text = query.rows(wanted, query.slice_views((card,), Versions(), NOW), query.Format(), first=False)
    (line,) = text.splitlines()
    assert line.isprintable()
    assert line.isascii()
    assert list(csv.reader([line], skipinitialspace=True)) == [[one_line(model), one_line(name), "1"]]
    (line,) = as_csv((card,), "now", header=False).splitlines()
    assert line.isprintable()
    ((*_, found, _, _, _, _),) = csv.reader([line])
    assert found == one_line(name)


def test_unknown() -> None:
    """Each field of a GPU and a slice of which nothing is known is N/A, or says so in words; none fails."""
    container = Container("a", "a", {}, None, (), None)
    gpu = Gpu(0, None, None, None, None, None, None, (container,))
    for known, views in (
        (query.GPU_FIELDS, query.gpu_views((gpu,), Versions(), NOW)),
        (query.SLICE_FIELDS, query.slice_views((gpu,), Versions(), NOW)),
    ):
        text = query.rows(list(known.values()), views, query.Format(header=False), first=True)  # type: ignore[arg-type]
        cells = dict(zip(known, text.strip().split(", "), strict=True))
        told = {name for name, cell in cells.items() if cell not in ("N/A", "0", "0 MiB", "unknown")}
        assert told <= {"timestamp", "count", "slices.count", "container"}
        assert cells["timestamp"] == "2026/01/02 03:04:05.678"
