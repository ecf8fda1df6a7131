# SPDX-License-Identifier: Apache-2.0
"""The page's text is what prometheus_client writes, byte for byte."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from cgpu.exporter.text import Plain, encode

# What Prometheus asks for by default, the same with names in UTF-8, the oldest version, and a browser.
ACCEPTED = (
    "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8,text/plain;version=1.0.0",
    "application/openmetrics-text;version=0.0.1",
    "text/plain;version=1.0.0;escaping=underscores",
    "text/plain;version=0.0.4",
    "text/html",
    "",
)


class Given(Collector):
    """Families as they are."""

    def __init__(self, families: list[Metric]) -> None:
        self.families = families

    def collect(self) -> Iterable[Metric]:
        return self.families


def refused(_: Collector) -> bytes:
    raise AssertionError("left to the library")


names = st.sampled_from(["opencgpu_up", "opencgpu_slice_memory_used_bytes", "DCGM_FI_DEV_FB_USED"])
texts = st.text(max_size=8) | st.sampled_from(['a"b', "a\\b", "a\nb", "\\n", "", "é", "x" * 300])
labels = st.dictionaries(st.sampled_from(["container", "pod", "UUID", "gpu", "reason"]), texts, max_size=4)
# Zero is one number here, whatever its sign.
values = (
    st.integers(-(2**63), 2**64)
    | st.floats().map(lambda value: value + 0.0)
    | st.sampled_from([0, 1, 1e6, 1e7, 123456.5, float("inf")])
)


@st.composite
def families(draw: st.DrawFn) -> Metric:
    """Return a family, some samples of which have the same labels by identity."""
    made = Plain(draw(names), draw(texts), draw(st.sampled_from(["counter", "gauge", "histogram"])))
    known = draw(st.lists(labels, min_size=1, max_size=3))
    count = draw(st.integers(0, 5))
    suffix = "_total" if made.type == "counter" else ""
    picked = [draw(st.sampled_from(known)) for _ in range(count)]
    made.samples = [Sample(made.name + suffix, one, draw(values)) for one in picked]
    return made


@given(st.lists(families(), max_size=4), st.sampled_from(ACCEPTED))
def test_is_what_the_library_writes(found: list[Metric], accept: str) -> None:
    """Any names, labels and values come out as from the library, in whichever format is asked for."""
    library, kind = choose_encoder(accept)
    assert encode(found, kind, refused) == library(Given(found))


@pytest.mark.parametrize("accept", ACCEPTED)
def test_leaves_the_rest_to_the_library(accept: str) -> None:
    """Samples with times, exemplars or a time of creation, and other types, are written by the library."""
    library, kind = choose_encoder(accept)
    registry = CollectorRegistry()
    Counter("requests", "text", registry=registry).inc(exemplar={"trace": "1"})
    Gauge("sizes", "text", unit="bytes", registry=registry).set(1)
    Histogram("times", "text", registry=registry).observe(1)
    timed = Metric("timed", "text", "gauge")
    timed.samples = [Sample("timed", {}, 1.0, 5.0)]
    for found in (*registry.collect(), timed, Metric("facts", "text", "info")):
        assert encode([found], kind, library) == library(Given([found]))
        if found.name not in ("sizes_bytes", "timed", "facts"):
            continue
        with pytest.raises(AssertionError, match="left to the library"):
            encode([found], kind, refused)
