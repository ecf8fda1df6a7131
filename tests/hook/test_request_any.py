# SPDX-License-Identifier: Apache-2.0
"""Arbitrary requests never crash and never get more than they name."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from cgpu.ask import NAMES, VENDOR
from cgpu.effective import Effective
from cgpu.errors import CgpuError
from cgpu.request import defers, format_grants, parse_grant, resolve, wants
from tests.hook.support import MIB, cards, uuid

GPUS = cards(15109, 16130, 23028)
numbers = st.integers(-1, 40).map(str)
lists = st.lists(st.one_of(numbers, st.sampled_from([uuid(0), uuid(2), "all", "x", ""])), max_size=4).map(
    ",".join
)
values = st.one_of(
    numbers, lists, st.sampled_from(["", "all", "void", "none", "true", "false"]), st.text(max_size=8)
)
variables = [variable for variable, _ in NAMES.values()]
entries = st.tuples(st.sampled_from([*variables, VENDOR, "PATH"]), values).map("=".join)
notes = st.dictionaries(st.sampled_from([note for _, note in NAMES.values()]), values, max_size=3)
configs = st.builds(
    Effective,
    allow_environment=st.booleans(),
    allow_disable=st.booleans(),
    allow_zero_weight=st.booleans(),
    max_mem_container_mib=st.none() | st.integers(1, 30000),
    max_schd_weight=st.none() | st.integers(1, 25),
    default_memsize=st.sampled_from([0, 5 << 30]),
)
hostile = st.recursive(
    st.none() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(entries, max_size=8), notes, configs)
@settings(max_examples=500, deadline=None)
def test_any_request(env: list[str], annotations: dict[str, str], config: Effective) -> None:
    """A request is refused, is for nothing, or gives slices within cards and bounds."""
    document = {"process": {"env": env}, "annotations": annotations}
    try:
        request = resolve(document, GPUS, config)
    except CgpuError:
        return
    assert wants(document, config) == (request is not None)
    if request is None:
        return
    indexes = [gpu for gpu, _, _, _ in request.grants]
    assert indexes
    assert len({*indexes, *request.native}) == len(indexes) + len(request.native) == len(request.uuids)
    for gpu, size, weight, highprio in request.grants:
        assert size % MIB == 0
        assert 0 < size <= min(GPUS[gpu].memtotal, (config.max_mem_container_mib or 1 << 30) * MIB)
        assert weight <= min(20, config.max_schd_weight or 20)
        assert weight >= (0 if config.allow_zero_weight else 1)
        assert highprio in (0, 1)
    assert tuple(map(parse_grant, format_grants(request.grants))) == request.grants


@given(
    st.dictionaries(
        st.sampled_from(["process", "annotations"]), hostile | st.dictionaries(st.just("env"), hostile)
    )
)
@settings(deadline=None)
def test_any_specification(document: dict[str, object]) -> None:
    """A specification of any shape is read or refused, and nothing else happens."""
    for question in (wants, defers):
        try:
            assert question(document, Effective()) in (True, False)
        except CgpuError:
            continue
