# SPDX-License-Identifier: Apache-2.0
"""The exporter has the tree's figures, under the names and labels that docs/metrics.md lists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from cgpu.client.tree import Tree
from cgpu.exporter import metrics
from cgpu.exporter.collector import TreeCollector
from cgpu.exporter.server import MetricsPage
from cgpu.smi.names import Directory
from tests.exporter.library import written
from tests.exporter.trees import ENGINE, FakeTree, gpu_line, slice_line

POD, PLAIN = "a" * 64, "web"
NAMES = {POD: "prod/trainer-0/main"}
Labels = tuple[tuple[str, str], ...]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def tree(tmp_path: Path) -> FakeTree:
    made = FakeTree(tmp_path / "tree")
    pod = {"used": 300 << 20, "peak": 600 << 20, "weight": 3, "throttled": 250_000_000, "refused_limit": 3}
    slices = (slice_line(POD, **pod), slice_line(PLAIN, refused_control=5))
    made.gpu(0, gpu_line("GPU-0", drift=-4096), *slices)
    made.gpu(1, gpu_line("GPU-1", policy=1, undivided=1))
    return made


def collector(tree: FakeTree, *, dcgm: bool = False, clock: Clock | None = None) -> TreeCollector:
    names = Directory([lambda: NAMES])
    return TreeCollector(lambda: Tree(str(tree.path)), names, dcgm=dcgm, clock=clock or Clock())


def page(made: TreeCollector, accept: str = "") -> str:
    """Return what a scraper gets, which is what the client library writes."""
    body = MetricsPage(made, 1.0)(accept).body
    assert body == written(made.collect(), accept)
    return body.decode()


def found(made: TreeCollector) -> dict[str, dict[Labels, float]]:
    """Return values by name and labels, as a scraper reads them."""
    text = page(made)
    values: dict[str, dict[Labels, float]] = {}
    for family in parse_text(text):
        for sample in family.samples:
            values.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return values


def labels(**words: str) -> Labels:
    return tuple(sorted(words.items()))


FIRST = {"gpu": "0", "UUID": "GPU-0"}
OF_POD = {"container": "main", "pod": "trainer-0", "namespace": "prod", "name": "a" * 12, "id": "a" * 12}
OF_PLAIN = {"container": "web", "pod": "", "namespace": "", "name": "web", "id": "web"}


def test_figures_are_the_trees(tree: FakeTree) -> None:
    """Bytes, seconds, refusals and labels of engine, GPUs and slices."""
    values = found(collector(tree))
    pod = labels(**OF_POD, **FIRST)
    assert values["opencgpu_up"] == {(): 1}
    assert values["opencgpu_engine_info"] == {labels(engine="cgpud", version="0.1.0"): 1}
    assert values["opencgpu_engine_calls_total"][labels(outcome="continued")] == 30
    assert values["opencgpu_engine_table_records"][labels(table="objects")] == 60
    assert values["opencgpu_gpu_memory_total_bytes"][labels(**FIRST)] == 15109 << 20
    assert values["opencgpu_gpu_memory_unaccounted_bytes"][labels(**FIRST)] == -4096
    assert values["opencgpu_gpu_policy"][labels(**FIRST, policy="weight preemptive")] == 2
    assert values["opencgpu_gpu_healthy"] == {labels(**FIRST): 1, labels(gpu="1", UUID="GPU-1"): 0}
    assert values["opencgpu_slice_memory_limit_bytes"][pod] == 1 << 30
    assert values["opencgpu_slice_memory_used_bytes"][pod] == 300 << 20
    assert values["opencgpu_slice_memory_peak_bytes"][pod] == 600 << 20
    assert values["opencgpu_slice_share_ratio"][pod] == 0.75
    assert values["opencgpu_slice_throttled_seconds_total"][pod] == 0.25
    assert values["opencgpu_slice_memory_refusals_total"][labels(**OF_POD, **FIRST, reason="limit")] == 3
    assert values["opencgpu_container_refused_calls_total"][labels(**OF_PLAIN, reason="control")] == 5


def test_the_witness_is_read_at_each_scrape(tree: FakeTree) -> None:
    """What becomes of it while the engine runs is shown."""
    made = collector(tree)
    for words, more in (("", {}), (" witness=on", {"witness": "on"})):
        (tree.path / "engine").write_text(f"cgpud 0.1.0{words}\n")
        assert found(made)["opencgpu_engine_info"] == {labels(engine="cgpud", version="0.1.0", **more): 1}


def test_high_priority_has_a_sample(tree: FakeTree) -> None:
    """A slice of high priority has one, and no other slice."""
    assert "opencgpu_slice_high_priority" not in found(collector(tree))
    tree.gpu(0, gpu_line("GPU-0"), slice_line(POD, highprio=1), slice_line(PLAIN))
    values = found(collector(tree))["opencgpu_slice_high_priority"]
    assert values == {labels(**OF_POD, **FIRST): 1}


def test_a_lost_gpu_is_not_healthy(tree: FakeTree) -> None:
    """Nor is one that lacks memory for long. Each has a condition of its own, which goes with its reason."""
    for fact, condition in (("lost", "lost"), ("drift_lasting", "unaccounted_memory")):
        for is_so in (1, 0):
            tree.gpu(0, gpu_line("GPU-0", **{fact: is_so}))
            values = found(collector(tree))
            assert values["opencgpu_gpu_condition"][labels(**FIRST, condition=condition)] == is_so
            assert values["opencgpu_gpu_healthy"][labels(**FIRST)] == 1 - is_so


def test_times_of_calls_are_a_histogram(tree: FakeTree) -> None:
    """Buckets add up from the shortest on, the last is all of them, and the sum is in seconds."""
    values = found(collector(tree))
    buckets = {
        dict(key)["le"]: value
        for key, value in values[f"{metrics.CALL_DURATION}_bucket"].items()
        if dict(key)["outcome"] == "executed"
    }
    assert list(buckets.items())[:5] == [
        ("1e-06", 0),
        ("4e-06", 0),
        ("1.6e-05", 3),
        ("6.4e-05", 7),
        ("0.000256", 7),
    ]
    assert list(buckets.items())[-2:] == [("1.048576", 7), ("+Inf", 9)]
    assert values[f"{metrics.CALL_DURATION}_count"][labels(outcome="executed")] == 9
    assert values[f"{metrics.CALL_DURATION}_sum"][labels(outcome="executed")] == 2.5
    assert values[f"{metrics.CALL_DURATION}_count"][labels(outcome="answered")] == 0
    assert values["opencgpu_engine_calls_in_progress"] == {(): 3}
    assert values["opencgpu_engine_queue_length"][labels(queue="listeners_held")] == 2


@pytest.mark.parametrize(
    "wrong", ["executed_times=", "executed_times=1,x", "executed_times=1,,2", f"executed_times={'1,' * 32}1"]
)
def test_broken_times_are_no_figures(tree: FakeTree, wrong: str) -> None:
    """An engine whose entry reads wrong, or that is not there, is down; a scrape of it is no failure."""
    none = TreeCollector(lambda: Tree(str(tree.path / "none")), Directory([]))
    assert found(none) == {"opencgpu_up": {(): 0}}
    (tree.path / "stat").write_text(re.sub(r"executed_times=\S+", wrong, ENGINE))
    assert found(collector(tree)) == {"opencgpu_up": {(): 0}}


def test_utilisation_is_of_the_time_between_scrapes(tree: FakeTree) -> None:
    """A slice at 40 % of the GPU shows 0.4; a scrape too soon after another one shows the same again."""
    clock = Clock()
    made = collector(tree, clock=clock)
    assert "opencgpu_slice_utilization_ratio" not in found(made)
    clock.now += 10
    tree.gpu(0, gpu_line("GPU-0", usage=5 * 10**9), slice_line(POD, usage=4 * 10**9))
    for _ in range(2):
        values = found(made)
        assert values["opencgpu_slice_utilization_ratio"][labels(**OF_POD, **FIRST)] == 0.4
        assert values["opencgpu_gpu_utilization_ratio"][labels(**FIRST)] == 0.5
        clock.now += 0.1
    # Another container by the same id begins anew.
    clock.now += 10
    tree.gpu(0, gpu_line("GPU-0", usage=5 * 10**9), slice_line(POD, usage=10**9))
    assert labels(**OF_POD, **FIRST) not in found(made).get("opencgpu_slice_utilization_ratio", {})


def test_every_metric_is_there_and_no_other(tree: FakeTree) -> None:
    """The rows of the table are what a scrape has, with the types that they say."""
    tree.gpu(0, gpu_line("GPU-0"), slice_line(POD, highprio=1), slice_line(PLAIN))
    clock = Clock()
    made = collector(tree, dcgm=True, clock=clock)
    found(made)
    clock.now += 2
    rows: list[metrics.Row[Any]] = [
        *metrics.ENGINE,
        *metrics.GPU,
        *metrics.SLICE,
        *metrics.CONTAINER,
        *metrics.DCGM,
    ]
    expected: dict[str, str] = {row.name: row.kind for row in rows}
    expected |= dict.fromkeys((metrics.UP, metrics.ENGINE_INFO, metrics.GPU_INFO), "gauge")
    parts = (f"{metrics.CALL_DURATION}_{part}" for part in ("bucket", "count", "sum"))
    expected |= dict.fromkeys(parts, "histogram")
    got = {sample.name: family.type for family in parse_text(page(made)) for sample in family.samples}
    assert got == expected


def test_dcgm_names_are_behind_a_switch(tree: FakeTree) -> None:
    """MiB and percent with dcgm-exporter's labels, only where they were asked for."""
    assert not any(name.startswith("DCGM") for name in found(collector(tree)))
    values = found(collector(tree, dcgm=True))
    (one,) = [key for key in values["DCGM_FI_DEV_FB_USED"] if dict(key)["gpu"] == "0"]
    assert set(dict(one)) == set(metrics.DCGM_LABELS)
    assert dict(one)["modelName"] == "Tesla T4"
    assert values["DCGM_FI_DEV_FB_USED"][one] == 15109 - 9000
    assert values["DCGM_FI_DEV_FB_FREE"][one] == 9000


def test_broken_gpu_takes_no_other_along(tree: FakeTree) -> None:
    """A GPU whose entry reads wrong, or is gone, is left out."""
    tree.gpu(1, "uuid=GPU-1 drift=x\n")
    values = found(collector(tree))
    assert set(values["opencgpu_gpu_memory_total_bytes"]) == {labels(**FIRST)}


def test_hostile_names_are_escaped_and_bounded(tree: FakeTree) -> None:
    """Quotes, newlines and lengths of names of containers end nowhere but in label values."""
    evil = 'x"} 1\nopencgpu_up{a="'
    names = Directory([lambda: {PLAIN: evil + "y" * 1000}])
    values = found(TreeCollector(lambda: Tree(str(tree.path)), names))
    assert values["opencgpu_up"] == {(): 1}
    (one,) = [key for key in values["opencgpu_slice_weight"] if dict(key)["id"] == PLAIN]
    assert dict(one)["container"].startswith(evil)
    assert len(dict(one)["container"]) == 253
