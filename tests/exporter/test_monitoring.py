# SPDX-License-Identifier: Apache-2.0
"""Rules and dashboard name metrics that the exporter has, with labels that these have."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cgpu.exporter import metrics
from tests.exporter.monitoring import alerts, dashboard, queries

TABLES: dict[tuple[metrics.Row[Any], ...], tuple[str, ...]] = {
    metrics.ENGINE: (),
    metrics.GPU: metrics.GPU_LABELS,
    metrics.SLICE: metrics.SLICE_LABELS,
    metrics.CONTAINER: metrics.CONTAINER_LABELS,
}
LABELS = {
    metrics.UP: {"instance"},
    metrics.GPU_INFO: {"instance", *metrics.GPU_INFO_LABELS},
    f"{metrics.CALL_DURATION}_bucket": {"instance", *metrics.CALL_DURATION_LABELS},
    **{
        row.name: {"instance", *labels, *([row.label] if row.label else [])}
        for table, labels in TABLES.items()
        for row in table
    },
}
METRIC = re.compile(r"opencgpu_\w+")
NAMED = re.compile(r"\$labels\.(\w+)|{{(\w+)}}|(\w+)=~")

EXPRESSIONS = {**{rule["alert"]: rule["expr"] for rule in alerts()}, **queries()}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_metrics_are_there(name: str) -> None:
    """A renamed metric takes its rules and panels along."""
    named = METRIC.findall(EXPRESSIONS[name])
    assert named
    assert set(named) <= LABELS.keys()


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_alerts_say_where(rule: dict[str, object]) -> None:
    """Each has a severity and two lines, which name labels that its metric has."""
    annotations = rule["annotations"]
    assert isinstance(annotations, dict)
    assert annotations.keys() == {"summary", "description"}
    assert rule["labels"]
    assert "$labels.instance" in "".join(annotations.values())
    assert labels("".join(annotations.values())) <= LABELS[METRIC.findall(str(rule["expr"]))[0]]


@pytest.mark.parametrize("panel", dashboard()["panels"], ids=lambda panel: panel["title"])
def test_panels_name_labels_that_are_there(panel: dict[str, list[dict[str, str]]]) -> None:
    """Legends and selections by labels show nothing where a metric has them not."""
    for target in panel.get("targets", ()):
        assert labels(target["legendFormat"] + target["expr"]) <= LABELS[METRIC.findall(target["expr"])[0]]


def test_panels_do_not_overlap() -> None:
    """Each has its place and number."""
    places = [panel["gridPos"] for panel in dashboard()["panels"]]
    cells = [
        (x, y)
        for at in places
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    numbers = [panel["id"] for panel in dashboard()["panels"]]
    assert len(numbers) == len(set(numbers))


def test_figures_have_thresholds() -> None:
    """Where a panel has none, Grafana shows 80 and more in red: of slices, too."""
    figures = [panel for panel in dashboard()["panels"] if panel["type"] == "stat"]
    assert figures
    for panel in figures:
        assert panel["fieldConfig"]["defaults"]["thresholds"]["steps"], panel["title"]


def test_line_is_where_the_alert_begins() -> None:
    """The dashed line over the memory of slices says what the alert says."""
    (expression,) = [rule["expr"] for rule in alerts() if rule["alert"] == "OpenCGPUSliceNearLimit"]
    ratio, _, bound = expression.rpartition(" > ")
    (panel,) = [
        panel
        for panel in dashboard()["panels"]
        if any(re.sub(r"{[^}]*}", "", target["expr"]) == ratio for target in panel.get("targets", ()))
    ]
    steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
    assert [step["value"] for step in steps] == [None, float(bound)]


def labels(text: str) -> set[str]:
    return {name for found in NAMED.findall(text) for name in found if name}
