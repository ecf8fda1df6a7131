# SPDX-License-Identifier: Apache-2.0
"""docs/metrics.md has a row for each metric, and no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cgpu.exporter import metrics
from cgpu.exporter.main import HOST, PORT
from tests.test_docs import rows, section

INFOS = {
    "Engine": (metrics.ENGINE_INFO, metrics.ENGINE_INFO_HELP, metrics.ENGINE_INFO_LABELS),
    "GPU": (metrics.GPU_INFO, metrics.GPU_INFO_HELP, metrics.GPU_INFO_LABELS[len(metrics.GPU_LABELS) :]),
}


def written(row: metrics.Row[Any]) -> list[str]:
    label = f" Label `{row.label}`." if row.label else ""
    return [f"`{row.name}`", row.kind, f"{row.help}{label}"]


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
    """Each section has the rows of its table, with type, help and label."""
    document = (repository / "docs" / "metrics.md").read_text()
    stated = [row for row in rows(section(document, heading)) if row[0].startswith("`")]
    expected = [written(row) for row in table]
    if heading in INFOS:
        name, text, labels = INFOS[heading]
        words = ", ".join(f"`{label}`" for label in labels)
        expected.insert(0, [f"`{name}`", "gauge", f"{text} Labels {words}."])
    if heading == "Engine":
        expected.insert(0, [f"`{metrics.UP}`", "gauge", metrics.UP_HELP])
        (label,) = metrics.CALL_DURATION_LABELS
        text = f"{metrics.CALL_DURATION_HELP} Label `{label}`."
        expected.append([f"`{metrics.CALL_DURATION}`", "histogram", text])
    assert stated == expected


def test_address(repository: Path) -> None:
    """The document names the address where the exporter listens by default."""
    assert f"http://{HOST}:{PORT}/metrics" in (repository / "docs" / "metrics.md").read_text()
