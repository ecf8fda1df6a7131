# SPDX-License-Identifier: Apache-2.0
"""Reading any entries `stat`: their numbers, or a line that names the error."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from cgpu.client.stat import BUCKETS, OUTCOMES, Latency, parse_engine, parse_gpu, parse_slice
from cgpu.errors import CgpuError
from tests.exporter.trees import ENGINE, gpu_line, slice_line, with_words

NUMBERS = st.integers(0, 2**64 - 1)
LATENCIES = st.builds(Latency, NUMBERS, st.lists(NUMBERS, min_size=1, max_size=BUCKETS).map(tuple))
VALUES = st.text("0123456789,-+. _e\u0661", max_size=80)
KEYS = [f"{outcome}_{what}" for outcome in OUTCOMES for what in ("ns", "times")]


@given(st.fixed_dictionaries(dict.fromkeys(OUTCOMES, LATENCIES)))
def test_times_are_read_as_they_were_written(latencies: dict[str, Latency]) -> None:
    """Each outcome is read, of any number of buckets."""
    words = {}
    for outcome, one in latencies.items():
        words[f"{outcome}_times"] = ",".join(map(str, one.calls))
        words[f"{outcome}_ns"] = str(one.ns)
    assert parse_engine(with_words(ENGINE, **words)).latencies == latencies


@given(LATENCIES)
def test_buckets_add_up(latency: Latency) -> None:
    """Bounds grow up to infinity, counts never fall, and the last of them has all calls."""
    bounds, calls = zip(*latency.cumulative(), strict=True)
    assert len(bounds) == len(latency.calls)
    assert list(bounds) == sorted(set(bounds))
    assert list(calls) == sorted(calls)
    assert (bounds[-1], calls[-1]) == (math.inf, sum(latency.calls))


@given(st.dictionaries(st.sampled_from([*KEYS, "calls_now", "workers"]), VALUES))
def test_anything_else_is_refused_by_name(words: dict[str, str]) -> None:
    """No text is an exception of another kind, nor a number that is none."""
    with suppress(CgpuError):
        for one in parse_engine(with_words(ENGINE, **words)).latencies.values():
            assert all(0 <= number < 10**20 for number in (one.ns, *one.calls))


def outcome(parse: Callable[[str], object], text: str) -> object:
    """Return a text's figures, or its error, without the line itself."""
    try:
        return parse(text)
    except CgpuError as error:
        return str(error).replace(repr(text), "LINE")


@given(st.data())
def test_order_and_other_keys_change_nothing(data: st.DataObject) -> None:
    """A line is read as with its words in any other order, and with unknown keys between them."""
    for parse, line in ((parse_slice, slice_line("web", used=3)), (parse_gpu, gpu_line("GPU-0"))):
        words = line.strip().split(" ")
        at = data.draw(st.integers(0, len(words) - 1))
        if data.draw(st.booleans()):
            words[at] = f"{words[at].partition('=')[0]}={data.draw(VALUES)}"
        usual = outcome(parse, " ".join(words))
        others = [*words, *data.draw(st.lists(st.sampled_from(["new=7", "new", "=", ""]), max_size=2))]
        other = outcome(parse, " ".join(data.draw(st.permutations(others))))
        if isinstance(usual, str):
            assert isinstance(other, str)
        else:
            assert other == usual
