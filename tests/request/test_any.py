# SPDX-License-Identifier: Apache-2.0
"""Arbitrary requests never crash and never get more than they name."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from cgpu.config.effective import Effective
from cgpu.errors import CgpuError
from cgpu.request.names import NAMES
from cgpu.request.spec import VENDOR, VENDOR_NOTHING
from tests.client.support import MIB, cards, uuid
from tests.request.shares import SHARE, variable
from tests.request.support import allocate, wants

GPUS = cards(15109, 16130, 23028)
numbers = st.integers(-1, 40).map(str)
lists = st.lists(st.one_of(numbers, st.sampled_from([uuid(0), uuid(2), "all", "x", ""])), max_size=4).map(
    ",".join
)
values = st.one_of(
    numbers,
    lists,
    st.sampled_from(["6G", "512M,40%", "101%", "1k", "high"]),
    st.sampled_from(["", "all", "void", "none", "true", "false", SHARE]),
    st.text(max_size=8),
)
variables = [name for names, _ in NAMES.values() for name in names]
entries = st.tuples(
    st.sampled_from(
        [*variables, VENDOR, variable(SHARE), "PATH", "CUDA_DEVICE_MEMORY_LIMIT_0", "CUDA_DEVICE_SM_LIMIT"]
    ),
    values,
).map("=".join)
marks = {
    "io.podman.annotations.init": st.just("FALSE"),
    "io.container.manager": st.sampled_from(["cri-o", "libpod"]),
    "io.kubernetes.cri-o.MountPoint": st.sampled_from(["/c", "/d"]),
    "io.kubernetes.cri.container-type": st.sampled_from(["sandbox", "container"]),
    "io.kubernetes.cri-o.ContainerType": st.sampled_from(["sandbox", "container"]),
}
notes = st.builds(
    lambda ours, marked: {**ours, **marked},
    st.dictionaries(
        st.sampled_from([note for _, notes in NAMES.values() for note in notes]), values, max_size=3
    ),
    st.fixed_dictionaries({}, optional=marks),
)
nodes = st.lists(
    st.fixed_dictionaries(
        {"type": st.just("c"), "major": st.sampled_from([1, 195]), "minor": st.integers(0, 4)}
    ),
    max_size=2,
)
rules = st.lists(
    st.sampled_from([{"allow": False}, {"allow": True}, {"allow": True, "major": 195}]), max_size=3
)
configs = st.builds(
    Effective,
    allow_environment=st.booleans(),
    allow_disable=st.booleans(),
    allow_zero_weight=st.booleans(),
    max_mem_container_mib=st.none() | st.integers(1, 30000),
    max_schd_weight=st.none() | st.integers(1, 25),
    default_memsize=st.sampled_from([0, 5 << 30]),
    shared_node=st.booleans(),
    allow_privileged=st.booleans(),
    allow_hami_variables=st.booleans(),
    pod_variables=st.booleans(),
    trust_annotations=st.sampled_from(["auto", "always", "never"]),
)
hostile = st.recursive(
    st.none() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(entries, max_size=8), notes, nodes, rules, configs)
def test_any_request(
    env: list[str],
    annotations: dict[str, str],
    given_nodes: list[dict[str, object]],
    given_rules: list[dict[str, object]],
    config: Effective,
) -> None:
    """A request is refused, is for nothing, or gives slices within cards and bounds."""
    linux = {"devices": given_nodes, "resources": {"devices": given_rules}}
    document = {"process": {"env": env}, "annotations": annotations, "root": {"path": "/c"}, "linux": linux}
    try:
        allocation = allocate(document, GPUS, config)
    except CgpuError:
        return
    assert wants(document, config) == (allocation is not None)
    if allocation is None:
        # On a shared node only who has no GPU in any way is not sliced.
        assert not config.shared_node or _has_none(env, given_nodes, given_rules, config)
        return
    indexes = [gpu for gpu, *_ in allocation.grants]
    assert indexes
    assert (
        len({*indexes, *allocation.passthrough})
        == len(indexes) + len(allocation.passthrough)
        == len(allocation.uuids)
    )
    for gpu, size, weight, highprio, *_ in allocation.grants:
        assert size % MIB == 0
        assert 0 < size <= min(GPUS[gpu].memtotal, (config.max_mem_container_mib or 1 << 30) * MIB)
        assert weight <= min(20, config.max_schd_weight or 20)
        assert weight >= (0 if config.allow_zero_weight else 1)
        assert highprio in (0, 1)


def _has_none(
    env: list[str],
    given_nodes: list[dict[str, object]],
    given_rules: list[dict[str, object]],
    config: Effective,
) -> bool:
    """Return whether neither the vendor's variable nor a node nor a rule gives a GPU."""
    said = {name: value for name, _, value in (entry.partition("=") for entry in env)}
    wide = [rule for rule in given_rules if "major" not in rule][-1:] == [{"allow": True}]
    noded = any(node["major"] == 195 for node in given_nodes) and not (wide and config.allow_privileged)
    return said.get(VENDOR, "") in VENDOR_NOTHING and not noded and (not wide or config.allow_privileged)


@given(
    st.dictionaries(
        st.sampled_from(["process", "annotations", "linux", "mounts", "root"]),
        hostile | st.dictionaries(st.just("env"), hostile),
    )
)
def test_any_specification(document: dict[str, object]) -> None:
    """A specification of any shape is read or refused, and nothing else happens."""
    with contextlib.suppress(CgpuError):
        assert wants(document, Effective()) in (True, False)
