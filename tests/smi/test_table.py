# SPDX-License-Identifier: Apache-2.0
"""The table keeps its form, with any figures and names, and in a terminal of any width."""

from __future__ import annotations

import csv
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.errors import one_line
from cgpu.smi.model import Container, Gpu, Process
from cgpu.smi.node import Versions
from cgpu.smi.render import as_csv
from cgpu.smi.scheduling import Scheduling
from cgpu.smi.table import LEAST, MOST, table
from cgpu.smi.text import called
from tests.policies import policies

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NUMBER = st.none() | st.integers(0, 10**20 - 1)
SHARE = st.none() | st.floats(0, 100)
FLAG = st.none() | st.integers(0, 1)
TEXT = st.text(max_size=80)
PROCESS = st.builds(Process, st.integers(0, 10**20 - 1), st.integers(0, 10**20 - 1), st.none() | TEXT)
CONTAINER = st.builds(
    Container,
    directory=TEXT,
    id=TEXT,
    slice=st.fixed_dictionaries({"memsize": NUMBER, "weight": NUMBER, "highprio": FLAG}),
    used=NUMBER,
    pids=st.just(()),
    engine_time=NUMBER,
    limit=SHARE,
    utilisation=SHARE,
    name=st.none() | TEXT,
    processes=st.lists(PROCESS, max_size=2).map(tuple),
    peak=NUMBER,
    throttled=NUMBER,
    refused=st.none() | st.just({"limit": 10**20}),
)
GPU = st.builds(
    Gpu,
    index=st.integers(0, 9999),
    uuid=st.none() | TEXT,
    model=st.none() | TEXT,
    policy=NUMBER,
    max_inst=NUMBER,
    prio_ratio=NUMBER,
    total=NUMBER,
    containers=st.lists(CONTAINER, max_size=2).map(tuple),
    scheduling=st.just(Scheduling()),
    hidden=NUMBER,
    reserved=st.integers(0, 10**20 - 1),
    bus=st.none() | TEXT,
    free=NUMBER,
    drift=st.none() | st.integers(-(10**20), 10**20),
    mig=st.none() | st.booleans(),
    lost=st.none() | st.booleans(),
    places=NUMBER,
    utilisation=SHARE,
)


@given(st.lists(GPU, max_size=2), TEXT, st.integers(0, 200))
def test_any_sample(gpus: list[Gpu], engine: str, columns: int) -> None:
    """Every line is as wide as every other, fits the terminal from 80 columns on, and is printable."""
    date, *lines = table(tuple(gpus), Versions(engine, engine), NOW, columns).splitlines()
    assert date == "Fri Jan  2 03:04:05 2026"
    (width,) = {len(line) for line in lines if line}
    assert LEAST <= width <= max(LEAST, min(columns - 1, MOST))
    assert all(line.isascii() and line.isprintable() for line in lines)
    assert all(line[0] in "|+" and line[-1] in "|+" for line in lines if line)


@given(TEXT)
def test_any_name_in_csv(name: str) -> None:
    """A row is a printable line that reads back, whatever the container's name."""
    one = Container("a", "a", {"memsize": 10}, used=4, pids=(), engine_time=0, name=name)
    gpu = Gpu(0, "GPU-1", "Tesla T4", 1, 20, 80, 10, (one,))
    (line,) = as_csv((gpu,), "now", header=False).splitlines()
    assert line.isprintable()
    ((*_, found, _, _, _, _),) = csv.reader([line])
    assert found == one_line(name)


def test_no_gpus() -> None:
    """An engine without GPUs has a table that says so."""
    assert "| No GPUs found  " in table((), Versions(), NOW)


def test_lost_gpu() -> None:
    """A GPU that the driver no longer reaches says so in place of its utilization."""
    gpu = Gpu(0, "GPU-0", "Tesla T4", 1, 20, 80, 1, (), rule=policies()[1], lost=True, utilisation=0.5)
    shown = table((gpu,), Versions(), NOW)
    assert "|  Lost        preemptive |" in shown
    assert "50%" not in shown


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("research/notebook/main", "research/notebook/main"),
        ("research/notebook-7f9c4/main", "notebook-7f9c4/main"),
        ("research/notebook-anna-7f9c4/main", "notebook-anna-7f9c4..."),
        ("a-long-name-of-docker/x-y-z", "a-long-name-of-dock..."),
    ],
)
def test_pod_counts_for_more_than_its_namespace(name: str, shown: str) -> None:
    """The pod is kept before the namespace where there is no room for all."""
    assert called(name, 22) == shown
