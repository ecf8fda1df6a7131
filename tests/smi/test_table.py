# SPDX-License-Identifier: Apache-2.0
"""The table keeps its form, with any figures and names, and in a terminal of any width."""

from __future__ import annotations

import csv
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.client.cards import Card, Container, Process
from cgpu.client.stat import SliceStat
from cgpu.errors import one_line
from cgpu.slice import Slice
from cgpu.smi.details import details
from cgpu.smi.node import Versions
from cgpu.smi.render import as_csv, document
from cgpu.smi.table import LEAST, MOST, table
from cgpu.smi.text import called
from tests.cards import card
from tests.exporter.trees import slice_line

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NUMBER = st.integers(0, 10**20 - 1)
FLAG = st.integers(0, 1)
SHARE = st.none() | st.floats(0, 100)
TEXT = st.text(max_size=80)
PROCESS = st.builds(Process, NUMBER, NUMBER, st.none() | TEXT)
SLICE = st.builds(
    SliceStat,
    id=TEXT,
    slice=st.builds(Slice, st.integers(1, 10**15 - 1), NUMBER, FLAG),
    refused=st.just({"limit": 10**20}),
    refused_calls=st.just({}),
    **dict.fromkeys(("used", "charged", "peak", "usage", "throttled"), NUMBER),
)
CONTAINER = st.builds(
    Container,
    stat=SLICE,
    limit=SHARE,
    utilisation=SHARE,
    name=st.none() | TEXT,
    processes=st.lists(PROCESS, max_size=2).map(tuple),
)
CARD = st.builds(
    Card,
    index=st.integers(0, 9999),
    model=TEXT,
    minor=NUMBER,
    stat=st.builds(
        lambda uuid, **figures: replace(card().stat, uuid=uuid, **figures),
        uuid=TEXT,
        mig=FLAG,
        lost=FLAG,
        **dict.fromkeys(("memtotal", "memfree", "promised", "max_inst", "places"), NUMBER),
    ),
    containers=st.lists(CONTAINER, max_size=2).map(tuple),
    reserved=NUMBER,
    bus=st.none() | TEXT,
    partial=st.booleans(),
    utilisation=SHARE,
)


@given(st.lists(CARD, max_size=2), TEXT, st.integers(0, 200))
def test_any_sample(cards: list[Card], engine: str, columns: int) -> None:
    """Every line is as wide as every other, fits the terminal from 80 columns on, and is printable."""
    date, *lines = table(tuple(cards), Versions(engine, engine), NOW, columns).splitlines()
    assert date == "Fri Jan  2 03:04:05 2026"
    (width,) = {len(line) for line in lines if line}
    assert LEAST <= width <= max(LEAST, min(columns - 1, MOST))
    assert all(line.isascii() and line.isprintable() for line in lines)
    assert all(line[0] in "|+" and line[-1] in "|+" for line in lines if line)


@given(st.lists(CARD, max_size=2), TEXT)
def test_any_details(cards: list[Card], engine: str) -> None:
    """Each line of the details is printable, and no name begins one."""
    lines = details(document(tuple(cards), Versions(engine), "now")).splitlines()
    assert all(line.isascii() and line.isprintable() for line in lines)
    assert sum(line.startswith("GPU ") for line in lines) == len(cards)


@given(TEXT)
def test_any_name_in_csv(name: str) -> None:
    """A row is a printable line that reads back, whatever the container's name."""
    made = card(slice_line("a"))
    named = replace(made, containers=(replace(made.containers[0], name=name),))
    (line,) = as_csv((named,), "now", header=False).splitlines()
    assert line.isprintable()
    ((*_, found, _, _, _, _),) = csv.reader([line])
    assert found == one_line(name)


def test_no_gpus() -> None:
    """An engine without GPUs has a table that says so."""
    assert "| No GPUs found  " in table((), Versions(), NOW)


def test_lost_gpu() -> None:
    """A GPU that the driver no longer reaches says so in place of its utilization."""
    shown = table((replace(card(lost=1), utilisation=50.0),), Versions(), NOW)
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
