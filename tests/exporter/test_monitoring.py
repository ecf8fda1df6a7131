# SPDX-License-Identifier: Apache-2.0
"""Rules, dashboard and docs/metrics.md name metrics that the exporter has, with labels that these have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cgpu.exporter import metrics
from tests.exporter.monitoring import FILES, alerts, dashboard, queries
from tests.policies import policies
from tests.test_docs import section

TABLES: dict[tuple[metrics.Row[Any], ...], tuple[str, ...]] = {
    metrics.ENGINE: (),
    metrics.GPU: metrics.GPU_LABELS,
    metrics.SLICE: metrics.SLICE_LABELS,
    metrics.CONTAINER: metrics.CONTAINER_LABELS,
}
LABELS = {
    "up": {"instance", "namespace", "pod"},  # of any target; the last two of an agent
    metrics.UP: {"instance"},
    metrics.GPU_INFO: {"instance", *metrics.GPU_INFO_LABELS},
    f"{metrics.CALL_DURATION}_bucket": {"instance", *metrics.CALL_DURATION_LABELS},
    **{
        row.name: {"instance", *labels, *([row.label] if row.label else [])}
        for table, labels in TABLES.items()
        for row in table
    },
}
METRIC = re.compile(r"\b(?:opencgpu_\w+|up(?={))")
NAMED = re.compile(r"\$labels\.(\w+)|{{(\w+)}}|(\w+)=~")

EXPRESSIONS = {**{rule["alert"]: rule["expr"] for rule in alerts()}, **queries()}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_metrics_are_there(name: str) -> None:
    """A renamed metric takes its rules and panels along."""
    named = METRIC.findall(EXPRESSIONS[name])
    assert named
    assert set(named) <= LABELS.keys()


def expression(name: str) -> str:
    (found,) = [one["expr"] for one in alerts() if one["alert"] == name]
    return str(found)


def test_alert_for_targets_knows_their_jobs(repository: Path) -> None:
    """The jobs are that of the document, and the operator's for the chart's PodMonitor."""
    found = re.search(r'job=~"([^"]+)"', expression("OpenCGPUExporterDown"))
    assert found is not None
    document = (repository / "docs" / "metrics.md").read_text()
    (stated,) = re.findall(r"job_name: (\S+)", document)
    template = (FILES.parent / "templates" / "metrics.yaml").read_text()
    (monitor,) = re.findall(r"kind: PodMonitor\nmetadata:\n  name: (\S+)", template)
    for job in (stated, f"any-namespace/{monitor}"):
        assert re.fullmatch(found[1], job), job


def test_alert_for_more_than_the_share_knows_the_policies() -> None:
    """The alert names the policies that keep idle slices' time for these: others may give more."""
    found = re.search(r'policy=~"([^"]+)"', expression("OpenCGPUShareAbovePolicy"))
    assert found is not None
    assert found[1].split("|") == [policy.name for policy in policies().values() if policy.keeps_idle]


@pytest.mark.parametrize("panel", dashboard()["panels"], ids=lambda panel: panel["title"])
def test_panels_name_labels_that_are_there(panel: dict[str, list[dict[str, str]]]) -> None:
    """Legends and selections by labels show nothing where a metric has them not."""
    for target in panel.get("targets", ()):
        assert labels(target["legendFormat"] + target["expr"]) <= LABELS[METRIC.findall(target["expr"])[0]]


def labels(text: str) -> set[str]:
    return {name for found in NAMED.findall(text) for name in found if name}


INFOS = {
    "Engine": (metrics.ENGINE_INFO, metrics.ENGINE_INFO_LABELS),
    "GPU": (metrics.GPU_INFO, metrics.GPU_INFO_LABELS[len(metrics.GPU_LABELS) :]),
}

ITEM = re.compile(r"^- `(\w+)`, (\w+): (.+)$", re.MULTILINE)


def stated(document: str, heading: str) -> list[tuple[str, str, set[str]]]:
    """Return name, type and labels of each metric that a section of the document has."""
    return [
        (name, kind, set(re.findall(r"`(\w+)`", text.partition(" Label")[2])))
        for name, kind, text in ITEM.findall(section(document, heading))
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
