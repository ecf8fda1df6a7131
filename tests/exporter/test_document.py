# SPDX-License-Identifier: Apache-2.0
"""docs/metrics.md has a row for each metric, and no other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cgpu.exporter import metrics
from tests.test_docs import rows, section

INFOS = {
    "Engine": (metrics.ENGINE_INFO, metrics.ENGINE_INFO_LABELS),
    "GPU": (metrics.GPU_INFO, metrics.GPU_INFO_LABELS[len(metrics.GPU_LABELS) :]),
}


def stated(document: str, heading: str) -> list[tuple[str, str, set[str]]]:
    """Return name, type and labels of each metric that a section of the document has."""
    named = [row for row in rows(section(document, heading)) if row[0].startswith("`")]
    return [
        (name.strip("`"), kind, set(re.findall(r"`(\w+)`", text.partition(" Label")[2])))
        for name, kind, text in named
    ]


@pytest.mark.parametrize(
    ("heading", "table"),
    [
        ("Engine", metrics.ENGINE),
        ("GPU", metrics.GPU),
        ("Slice", metrics.SLICE),
        ("Container", metrics.CONTAINER),
        ("Names of dcgm-exporter", metrics.DCGM),
    ],
)
def test_rows(repository: Path, heading: str, table: tuple[metrics.Row[Any], ...]) -> None:
    """Each section has the metrics of its table, with their types and labels."""
    document = (repository / "docs" / "metrics.md").read_text()
    expected: list[tuple[str, str, set[str]]] = [
        (row.name, row.kind, {row.label} if row.label else set()) for row in table
    ]
    if heading in INFOS:
        name, labels = INFOS[heading]
        expected.insert(0, (name, "gauge", set(labels)))
    if heading == "Engine":
        expected.insert(0, (metrics.UP, "gauge", set()))
        expected.append((metrics.CALL_DURATION, "histogram", set(metrics.CALL_DURATION_LABELS)))
    assert stated(document, heading) == expected
