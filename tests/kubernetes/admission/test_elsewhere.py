# SPDX-License-Identifier: Apache-2.0
"""Words of other systems beside the amounts: those that choose a card, and those that get a warning."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest
from lightkube import Client

from cgpu.errors import CgpuError
from cgpu.kubernetes.admission.cards import MAX_WORDS, Cards
from cgpu.kubernetes.admission.rewrite import Settings, rewrite
from tests.kubernetes.admission.published import Published
from tests.kubernetes.admission.test_review import FewTemplates, judged, request
from tests.kubernetes.admission.test_rewrite import container, patched, pod

CARDS = Published(15360, 24576)
HAMI = {"nvidia.com/gpu": 1, "nvidia.com/gpumem": 3000}


def selectors(annotations: dict[str, str], **limits: Any) -> list[list[str]]:
    """Return the expressions of each alternative of the request of a pod with these annotations."""
    document = pod([container(limits=limits or HAMI)], annotations=annotations)
    (described,) = rewrite(document, CARDS).templates.values()
    (asked,) = described["spec"]["devices"]["requests"]
    options = asked.get("firstAvailable") or [asked["exactly"]]
    return [[one["cel"]["expression"] for one in option.get("selectors", ())] for option in options]


def warnings(limits: dict[str, Any] | None = None, **fields: Any) -> list[str]:
    return rewrite(pod([container(limits=limits or HAMI)], **fields), CARDS).warnings


def test_cards_by_uuid_and_model() -> None:
    """HAMi's annotations are selectors: any of the words, or none of them; models in whichever case."""
    found = selectors(
        {
            "nvidia.com/use-gpuuuid": "GPU-1, GPU-2",
            "nvidia.com/nouse-gpuuuid": "GPU-3,GPU-4",
            "nvidia.com/use-gputype": "a100",
            "nvidia.com/nouse-gputype": "1080,2080",
        }
    )
    attributes = 'device.attributes["gpu.opencgpu.io"]'
    model = f'("NVIDIA-" + {attributes}.productName).upperAscii()'
    assert found == [
        [
            f'{attributes}.uuid == "GPU-1" || {attributes}.uuid == "GPU-2"',
            f'{attributes}.uuid != "GPU-3" && {attributes}.uuid != "GPU-4"',
            f'{model}.contains("A100")',
            f'!{model}.contains("1080") && !{model}.contains("2080")',
        ]
    ]


def test_cards_of_a_percentage() -> None:
    """Each alternative of a percentage has them beside its size; empty annotations choose nothing."""
    first, second = selectors({"nvidia.com/use-gputype": "T4"}, **{"nvidia.com/gpumem-percentage": 50})
    assert (len(first), len(second)) == (2, 2)
    assert first[1] == second[1]
    assert selectors({"nvidia.com/use-gputype": " , "}) == [[]]


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ('T4") || true || ("', "expected words of at most 64"),
        ("T4\\", "expected words of at most 64"),
        ("T4\n", "expected words of at most 64"),
        ("x" * 65, "expected words of at most 64"),
        (",".join(["T4"] * (MAX_WORDS + 1)), "33 words; expected at most 32"),
    ],
)
def test_words_that_are_none(text: str, refused: str) -> None:
    """No annotation can write an expression, or a very long one."""
    for name in ("use-gputype", "nouse-gputype", "use-gpuuuid", "nouse-gpuuuid"):
        if not text.endswith("\n") or name == "use-gpuuuid":
            with pytest.raises(CgpuError, match=refused):
                selectors({f"nvidia.com/{name}": text.replace("\n", "\nA")})


def test_annotations_of_other_pods() -> None:
    """A pod that asks for nothing of ours is not judged by them."""
    document = pod([container(limits={"nvidia.com/gpu": 1})], annotations={"nvidia.com/use-gputype": '"'})
    assert rewrite(document, CARDS).patch == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, []),
        ({"annotations": {"nvidia.com/vgpu-mode": "hami-core"}}, []),
        (
            {"annotations": {"nvidia.com/vgpu-mode": "mig"}},
            ["nvidia.com/vgpu-mode: mig: does not count: a slice"],
        ),
        ({"annotations": {"nvidia.com/numa-bind": "true"}}, ["nvidia.com/numa-bind: true: does not count"]),
        ({"annotations": {"hami.io/gpu-scheduler-policy": "spread"}}, []),
        ({"annotations": {"hami.io/node-scheduler-policy": "x"}}, ["hami.io/node-scheduler-policy: x: does"]),
        ({"labels": {"kai.scheduler/queue": "a"}}, ["kai.scheduler/queue: a: does not count"]),
        ({"schedulerName": "hami-scheduler"}, []),
        ({"schedulerName": "volcano"}, ["schedulerName: volcano: default-scheduler places this pod"]),
        (
            {"limits": {**HAMI, "nvidia.com/priority": 1}},
            ["container main: nvidia.com/priority: does not count"],
        ),
        ({"limits": {"nvidia.com/gpumem": 24576}}, []),
        (
            {"limits": {"nvidia.com/gpumem": 24577}},
            ["container main: 24577 MiB of a GPU: the pod waits, as"],
        ),
    ],
    ids=str,
)
def test_warnings(fields: dict[str, Any], said: list[str]) -> None:
    """Each word that does not count has a line, and so has an amount that no card has."""
    found = warnings(**fields)
    assert [line[: len(expected)] for line, expected in zip(found, said, strict=True)] == said


def test_no_card_is_no_warning() -> None:
    """A cluster that makes its nodes when pods wait has published none yet."""
    document = pod([container(limits={"nvidia.com/gpumem": 99999})])
    assert rewrite(document, Published()).warnings == []


def test_priority_of_another_container() -> None:
    """HAMi's priority goes from the containers that ask, since no node has it, and from no others."""
    whole = {"nvidia.com/gpu": 1, "nvidia.com/priority": 1}
    document = pod([container(limits={**HAMI, "nvidia.com/priority": 0}), container("two", limits=whole)])
    first, second = patched(document, rewrite(document, CARDS).patch)["spec"]["containers"]
    assert (first["resources"]["limits"], second["resources"]["limits"]) == ({}, whole)


def test_scheduler() -> None:
    """Schedulers that cannot allocate claims are replaced by the one of the settings, others stay."""
    for name, expected in (("volcano", "mine"), ("default-scheduler", "mine"), ("other", "other")):
        document = pod([container(limits=HAMI)], schedulerName=name)
        found = rewrite(document, CARDS, Settings(scheduler="mine"))
        assert patched(document, found.patch)["spec"]["schedulerName"] == expected


@pytest.mark.parametrize("policy", ["binpack", "spread"])
def test_nodes(policy: str) -> None:
    """HAMi's policy for nodes is a preference beside those of the pod, added once."""
    mine = {"maxSkew": 5, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    affinity: dict[str, Any] = {
        "nodeAffinity": {},
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []},
    }
    document = pod(
        [container(limits=HAMI)],
        annotations={"hami.io/node-scheduler-policy": policy},
        labels={"app": "a"},
        affinity=affinity,
        topologySpreadConstraints=[mine],
    )
    after = patched(document, rewrite(document, CARDS).patch)
    assert after["metadata"]["labels"] == {"app": "a", "opencgpu.io/nodes": policy}
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    together = after["spec"]["affinity"]["podAffinity"].pop(preferred, [])
    apart = [one for one in after["spec"]["topologySpreadConstraints"] if one != mine]
    assert (len(together), len(apart)) == ((1, 0) if policy == "binpack" else (0, 1))
    assert after["spec"]["affinity"] == affinity
    after["spec"]["affinity"]["podAffinity"][preferred] = together
    assert rewrite(after, CARDS).patch == []


def test_together_in_place_of_apart() -> None:
    """Without constraints of its own a pod would have those of the scheduler, which keep replicas apart."""
    annotations = {"hami.io/node-scheduler-policy": "binpack"}
    document = pod([container(limits=HAMI)], annotations=annotations)
    (found,) = patched(document, rewrite(document, CARDS).patch)["spec"]["topologySpreadConstraints"]
    assert (found["whenUnsatisfiable"], found["labelSelector"]) == (
        "ScheduleAnyway",
        {"matchLabels": {"opencgpu.io/nodes": "none"}},
    )


def test_unit_of_gpushare() -> None:
    """Where the setting says MiB, aliyun.com/gpu-mem is counted in these, and an error names them."""
    settings = Settings(ack_unit=1)
    document = pod([container(limits={"aliyun.com/gpu-mem": 3000})])
    (described,) = rewrite(document, CARDS, settings).templates.values()
    assert '"memory": "3000Mi"' in json.dumps(described)
    with pytest.raises(CgpuError, match="3Gi: expected the number of MiB alone"):
        rewrite(pod([container(limits={"aliyun.com/gpu-mem": "3Gi"})]), CARDS, settings)


def test_review_has_warnings() -> None:
    """The API server's answer has them, each with our name and short enough to be shown whole."""
    annotations = {"nvidia.com/vgpu-mode": "mig" * 100, "nvidia.com/numa-bind": "true"}
    document = pod([container(limits=HAMI)], annotations=annotations)
    response = judged(request(document), FewTemplates())
    assert [line[:32] for line in response["warnings"]] == [
        "opencgpu: nvidia.com/vgpu-mode: ",
        "opencgpu: nvidia.com/numa-bind: ",
    ]
    assert max(map(len, response["warnings"])) <= 256
    assert "warnings" not in judged(request(pod([container(limits=HAMI)])), FewTemplates())


@dataclass
class Slices:
    """An API server with ResourceSlices of cards of these sizes, in GiB."""

    sizes: list[int]
    fails: bool = False
    listed: int = field(default=0)

    def list(self, *_: object, **__: object) -> Iterator[Any]:
        self.listed += 1
        if self.fails:
            raise httpx2.ConnectError("down")
        devices = [SimpleNamespace(capacity={"memory": {"value": f"{size}Gi"}}) for size in self.sizes]
        return iter([SimpleNamespace(spec=SimpleNamespace(devices=devices))])


def test_sizes_by_number() -> None:
    """The most frequent size comes first; one card more or less changes no order, and so no template."""
    few, many = ([80] * 2 + [24] * 3 + [15] * count for count in (9, 10))
    for sizes in (few, many):
        assert Cards(cast("Client", Slices(sizes))).sizes() == (15360, 24576, 81920)


def test_largest_asks_rarely() -> None:
    """An amount that a known card has costs no call, and a warning is no reason to refuse a pod."""
    api = Slices([15, 24])
    cards = Cards(cast("Client", api))
    assert [cards.largest(mib) for mib in (1024, 24576, 3000, 99999)] == [24576] * 4
    assert api.listed == 1
    assert Cards(cast("Client", Slices([], fails=True))).largest(1) == 0
    with pytest.raises(CgpuError, match="no answer from the API server"):
        Cards(cast("Client", Slices([], fails=True))).sizes()
