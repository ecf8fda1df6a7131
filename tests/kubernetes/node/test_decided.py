# SPDX-License-Identifier: Apache-2.0
"""Decisions of other schedulers: each encoding read as its source writes it, a hostile one not at all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightkube.resources.core_v1 import Pod

from cgpu.errors import CgpuError
from cgpu.kubernetes.node.decided import SYSTEMS, Decision, Part, decided
from tests.kubernetes.node.objects import NODE, POD, SECOND, T4

CARDS = (T4, SECOND)
SCHEDULER = "other-scheduler"
LIMITS = {
    "hami": {"nvidia.com/gpu": "1"},
    "volcano": {"volcano.sh/vgpu-number": "1"},
    "gpushare": {"aliyun.com/gpu-mem": "3"},
    "koordinator": {"koordinator.sh/gpu-memory": "3Gi"},
}
FOUR, SIX = f"{T4.uuid},NVIDIA,4096,30:", f"{SECOND.uuid},NVIDIA,6000,0:"


def decided_pod(
    system: str,
    annotations: Mapping[str, str],
    inits: tuple[str, ...] = (),
    mains: tuple[str, ...] = ("main",),
    asking: tuple[str, ...] = ("main",),
    **spec: Any,
) -> Pod:
    """Return a pod of this node with the annotations. asking: the containers that have a resource."""
    found = Pod.from_dict(
        {
            "metadata": {
                "namespace": "team",
                "name": "theirs",
                "uid": POD,
                "annotations": {"hami.io/vgpu-node": NODE, "volcano.sh/vgpu-node": NODE, **annotations},
            },
            "spec": {
                "nodeName": NODE,
                "schedulerName": SCHEDULER,
                "initContainers": [{"name": name} for name in inits],
                "containers": [
                    {"name": name, "resources": {"limits": LIMITS[system] if name in asking else {}}}
                    for name in mains
                ],
                **spec,
            },
        }
    )
    return cast("Pod", found)


def read(system: str, pod: Pod) -> Decision | None:
    return decided(system, SCHEDULER, NODE, pod, CARDS)


def koordinator(*cards: Mapping[str, Any]) -> dict[str, str]:
    return {"scheduling.koordinator.sh/device-allocated": json.dumps({"gpu": cards})}


def of_minor(minor: int, **resources: Any) -> dict[str, Any]:
    return {
        "minor": minor,
        "resources": {f"koordinator.sh/gpu-{key}": value for key, value in resources.items()},
    }


HAMI_POD = {"inits": ("init",), "mains": ("main", "side", "other")}
EXPECTED = {"main": (Part(T4.uuid, 4096, 30),), "other": (Part(SECOND.uuid, 6000),)}
SHARED = {"ALIYUN_COM_GPU_MEM_IDX": "1", "ALIYUN_COM_GPU_MEM_DEV": "15", "ALIYUN_COM_GPU_MEM_POD": "6"}


@pytest.mark.parametrize(
    ("system", "annotations", "pod", "expected"),
    [
        # HAMi's entries are those of all containers, init containers first; before 2.10 of main ones alone.
        ("hami", {"hami.io/vgpu-devices-allocated": f";{FOUR};;{SIX};"}, HAMI_POD, EXPECTED),
        ("hami", {"hami.io/vgpu-devices-allocated": f"{FOUR};;{SIX};"}, HAMI_POD, EXPECTED),
        (
            "hami",
            {"hami.io/vgpu-devices-allocated": f"{FOUR};{FOUR}{SIX};"},
            {"inits": ("init",)},
            {"init": (Part(T4.uuid, 4096, 30),), "main": (Part(T4.uuid, 4096, 30), Part(SECOND.uuid, 6000))},
        ),
        # A whole card by its maker's size is what the card has.
        (
            "hami",
            {"hami.io/vgpu-devices-allocated": f"{T4.uuid.upper()},NVIDIA,15360,100:;"},
            {},
            {"main": (Part(T4.uuid, 15109, 100),)},
        ),
        # Volcano's are those of the containers that ask.
        (
            "volcano",
            {"volcano.sh/vgpu-ids-new": f"{FOUR};{SIX}"},
            {**HAMI_POD, "asking": ("main", "other")},
            EXPECTED,
        ),
        # gpushare: 3 of 15 for each of two containers, whose sum is POD.
        (
            "gpushare",
            SHARED,
            {"mains": ("a", "b", "c"), "asking": ("a", "c")},
            {"a": (Part(SECOND.uuid, 3021),), "c": (Part(SECOND.uuid, 3021),)},
        ),
        (
            "gpushare",
            {"scheduler.framework.gpushare.allocation": '{"0": {"0": 3, "1": 7}, "1": {"1": 1}}'},
            {"mains": ("a", "b")},
            {"a": (Part(T4.uuid, 3237), Part(SECOND.uuid, 7554)), "b": (Part(SECOND.uuid, 1079),)},
        ),
        (
            "koordinator",
            koordinator(
                of_minor(1, core="50", memory="8Gi", **{"memory-ratio": "53"}), of_minor(0, memory=1 << 30)
            ),
            {"mains": ("side", "main")},
            {"main": (Part(SECOND.uuid, 8192, 50), Part(T4.uuid, 1024))},
        ),
        (
            "koordinator",
            koordinator({**of_minor(1, memory="1Gi"), "id": SECOND.uuid}),
            {},
            {"main": (Part(SECOND.uuid, 1024),)},
        ),
        ("hami", {}, {}, None),
    ],
)
def test_what_each_writes(
    system: str, annotations: dict[str, str], pod: dict[str, Any], expected: Decision | None
) -> None:
    """The containers have the parts that the scheduler has written, by each form that is known."""
    made = decided_pod(system, annotations, **pod)
    if not annotations:
        assert made.metadata is not None
        made.metadata.annotations = None
    assert read(system, made) == expected


def hami(text: str) -> tuple[str, dict[str, str]]:
    return "hami", {"hami.io/vgpu-devices-allocated": text}


def shared(**changed: str) -> tuple[str, dict[str, str]]:
    return "gpushare", {**SHARED, **{f"ALIYUN_COM_GPU_MEM_{key}": value for key, value in changed.items()}}


def allocation(text: str) -> tuple[str, dict[str, str]]:
    return "gpushare", {"scheduler.framework.gpushare.allocation": text}


@pytest.mark.parametrize(
    ("system", "annotations"),
    [
        hami(f"{FOUR};;"),
        hami(FOUR),
        hami(f"{FOUR[:-1]};"),
        hami(f"{FOUR}{FOUR};"),
        hami(f"{FOUR},x:;"),
        hami(f"{T4.uuid},NVIDIA,-1,0:;"),
        hami(f"{T4.uuid},NVIDIA,0,0:;"),
        hami(f"{T4.uuid},NVIDIA,15361,0:;"),
        hami(f"{T4.uuid},NVIDIA,{10**30},0:;"),
        hami(f"{T4.uuid},NVIDIA,1,101:;"),
        hami(f"{T4.uuid},NVIDIA, 1,1:;"),
        hami(f"{T4.uuid},NVIDIA,1e3,1:;"),
        hami(f"{T4.uuid},MLU,1,1:;"),
        hami("GPU-elsewhere,NVIDIA,1,1:;"),
        hami(f"{T4.uuid}[1g.5gb-0],NVIDIA,1,1:;"),
        hami(";" * (1 << 15)),
        ("hami", {"hami.io/vgpu-devices-allocated": f"{FOUR};", "hami.io/vgpu-node": "node-2"}),
        ("volcano", {"volcano.sh/vgpu-ids-new": f"{FOUR};"}),
        ("volcano", {"volcano.sh/vgpu-ids-new": FOUR, "volcano.sh/vgpu-node": ""}),
        shared(POD="4"),
        shared(POD=""),
        shared(IDX="-1"),
        shared(IDX="2"),
        shared(IDX="01"),
        shared(DEV="0", POD="3"),
        shared(DEV="2", POD="3"),
        allocation("{"),
        allocation("[" * 10000),
        allocation("[]"),
        allocation('{"0": {"0": 1}, "0": {"0": 2}}'),
        allocation('{"0": {"0": true}}'),
        allocation('{"0": {"0": -1}}'),
        allocation('{"0": {"0": 15}}'),
        allocation('{"0": {"9": 1}}'),
        allocation('{"-1": {"0": 1}}'),
        allocation('{"1": {"0": 1}}'),
        allocation('{"0": 1}'),
        ("koordinator", koordinator()),
        ("koordinator", koordinator(of_minor(0))),
        ("koordinator", koordinator(of_minor(2, memory="1Gi"))),
        ("koordinator", koordinator(of_minor(0, memory="-1Gi"))),
        ("koordinator", koordinator(of_minor(0, memory="Gi"))),
        ("koordinator", koordinator(of_minor(0, memory="1e99"))),
        ("koordinator", koordinator(of_minor(0, memory="1Gi", core="200"))),
        ("koordinator", koordinator({**of_minor(0, memory="1Gi"), "id": SECOND.uuid})),
        ("koordinator", koordinator({"minor": True, "resources": {}})),
        ("koordinator", {"scheduling.koordinator.sh/device-allocated": '{"gpu": [1]}'}),
    ],
)
def test_what_nobody_can_have_written(system: str, annotations: dict[str, str]) -> None:
    """An annotation that does not fit in all its parts gives nothing, and one line says why."""
    with pytest.raises(CgpuError):
        read(system, decided_pod(system, annotations))


def test_whose_decision_it_is() -> None:
    """Another scheduler's pod has no decision, nor a pod of another node, nor one with two that ask."""
    system, annotations = hami(f"{FOUR};")
    assert read(system, decided_pod(system, annotations))
    with pytest.raises(
        CgpuError, match="schedulerName: default-scheduler: its annotations are those of other"
    ):
        read(system, decided_pod(system, annotations, schedulerName="default-scheduler"))
    with pytest.raises(CgpuError, match="the pod is on node-1"):
        read(system, decided_pod(system, annotations, nodeName="node-2"))
    two = decided_pod(
        "koordinator", koordinator(of_minor(0, memory="1Gi")), mains=("a", "b"), asking=("a", "b")
    )
    with pytest.raises(CgpuError, match="2 of the pod ask for a GPU"):
        read("koordinator", two)


PARTS = st.lists(
    st.builds(Part, st.sampled_from([T4.uuid, SECOND.uuid]), st.integers(1, 15109), st.integers(0, 100)),
    max_size=2,
    unique_by=lambda part: part.gpu,
)


@given(st.lists(PARTS, min_size=1, max_size=6), st.data())
def test_all_that_hami_can_write(parts: list[list[Part]], data: st.DataObject) -> None:
    """Whatever HAMi and Volcano write of two cards is read as it was decided, for whichever containers."""
    count = data.draw(st.integers(0, len(parts) - 1))
    names = tuple(f"c{number}" for number in range(len(parts)))
    entries = ["".join(f"{one.gpu},NVIDIA,{one.mib},{one.cores}:" for one in each) for each in parts]
    expected = {name: tuple(each) for name, each in zip(names, parts, strict=True) if each}
    of_hami = {"hami.io/vgpu-devices-allocated": "".join(f"{one};" for one in entries)}
    made = decided_pod("hami", of_hami, inits=names[:count], mains=names[count:])
    assert read("hami", made) == expected
    asking = tuple(expected)
    if asking:
        of_volcano = {"volcano.sh/vgpu-ids-new": ";".join(filter(None, entries))}
        made = decided_pod("volcano", of_volcano, mains=names, asking=asking)
        assert read("volcano", made) == expected


WORDS = [
    "NVIDIA",
    "0",
    "1",
    "15109",
    "15360",
    "99999999999",
    "-1",
    ",",
    ":",
    ";",
    "{",
    "}",
    "[",
    "]",
    '"0"',
    '"gpu"',
    '"minor"',
    '"resources"',
    '"1Gi"',
]
PIECES = st.sampled_from([T4.uuid, SECOND.uuid, *WORDS, '"koordinator.sh/gpu-memory"', "\udc00", " "])


@given(st.sampled_from(sorted(SYSTEMS)), st.data())
def test_nothing_from_chance(system: str, data: st.DataObject) -> None:
    """Whatever stands there, a decision is of the pod's own containers and within this node's cards."""
    texts = st.lists(PIECES, max_size=24).map("".join)
    annotations = {key: data.draw(texts) for key in SYSTEMS[system].keys}
    try:
        found = read(system, decided_pod(system, annotations, inits=("init",)))
    except CgpuError:
        return
    most = {card.uuid: card.mib for card in CARDS}
    for name, parts in (found or {}).items():
        assert name in ("init", "main")
        assert len({part.gpu for part in parts}) == len(parts)
        assert all(1 <= part.mib <= most[part.gpu] and 0 <= part.cores <= 100 for part in parts)
