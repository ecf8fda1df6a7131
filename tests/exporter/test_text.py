# SPDX-License-Identifier: Apache-2.0
"""The page's text is what prometheus_client writes, byte for byte."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.exposition import choose_encoder

from cgpu.exporter.text import Family, Kind, Labels, encode, with_label
from tests.exporter.library import written

# Accept headers of Prometheus by default, the same with names in UTF-8, of its oldest version, and of a
# browser.
ACCEPTED = (
    "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8,text/plain;version=1.0.0",
    "application/openmetrics-text;version=0.0.1",
    "text/plain;version=1.0.0;escaping=underscores",
    "text/plain;version=0.0.4",
    "text/html",
    "",
)


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
def families(draw: st.DrawFn) -> Family:
    """Return a family, some samples of which have the same labels by identity."""
    kind: Kind = draw(st.sampled_from(["counter", "gauge", "histogram"]))
    known = draw(st.lists(labels.map(Labels), min_size=1, max_size=3))
    count = draw(st.integers(0, 5))
    total = "_total" if kind == "counter" else ""
    suffixes = st.sampled_from(["_bucket", "_count", "_sum"] if kind == "histogram" else [""])
    samples = [(draw(suffixes), draw(st.sampled_from(known)), draw(values)) for _ in range(count)]
    return Family(draw(names) + total, kind, draw(texts), samples)


@given(st.lists(families(), max_size=4), st.sampled_from(ACCEPTED))
def test_is_what_the_library_writes(found: list[Family], accept: str) -> None:
    """Any names, labels and values come out as from the library, in whichever format is asked for."""
    _, kind = choose_encoder(accept)
    assert encode(found, kind) == written(found, accept)


@given(labels, labels)
def test_one_more_label_is_written_with_the_others(some: dict[str, str], more: dict[str, str]) -> None:
    """A label that is added stands where it would stand among all."""
    found = Labels(some)
    for name, value in more.items():
        found = with_label(found, name, value)
    assert found.text == Labels({**some, **more}).text


def test_half_a_character_is_shown_as_one_that_is_not_known() -> None:
    """One label that no text can have takes no other metric away."""
    found = Family("opencgpu_up", "gauge", "", [("", Labels({"pod": "a\ud800"}), 1)])
    assert b'\nopencgpu_up{pod="a?"} 1.0\n' in encode([found], "text/plain")
