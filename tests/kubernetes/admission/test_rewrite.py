# SPDX-License-Identifier: Apache-2.0
"""Pods of other systems, as they are rewritten."""

from __future__ import annotations

import copy
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from cgpu.errors import CgpuError
from cgpu.kubernetes.admission import rewrite as rewriting
from cgpu.kubernetes.admission.asked import SYSTEMS
from cgpu.kubernetes.admission.rewrite import MOST, rewrite
from cgpu.kubernetes.admission.shape import Shape, name_of, template
from tests.kubernetes.admission.published import Published

TABLE = yaml.safe_load((Path(__file__).parent / "asked.yaml").read_text())
SIZES = (15360, 81920)
CARDS = Published(*SIZES)
NAMES = sorted({name for names in SYSTEMS for name in names.all()})
AMOUNTS: st.SearchStrategy[int | str] = st.integers(-1, 120) | st.text(max_size=4)
RESOURCES: st.SearchStrategy[dict[str, Any]] = st.dictionaries(
    st.sampled_from([*NAMES, "cpu"]), AMOUNTS, max_size=4
)


def pod(containers: list[dict[str, Any]], **fields: Any) -> dict[str, Any]:
    """Return a pod. labels and annotations go to its metadata, other fields to its spec."""
    metadata: dict[str, Any] = {"name": "one"}
    metadata |= {key: fields.pop(key) for key in ("labels", "annotations") if key in fields}
    return {"metadata": metadata, "spec": {"containers": containers, **fields}}


def container(name: str = "main", **resources: Any) -> dict[str, Any]:
    return {"name": name, "image": "i", "resources": resources}


def patched(document: dict[str, Any], patch: list[dict[str, Any]]) -> dict[str, Any]:
    """Apply a patch of additions (RFC 6902, section 4.1)."""
    document = copy.deepcopy(document)
    for change in patch:
        assert change["op"] == "add"
        *parents, last = change["path"].removeprefix("/").split("/")
        place: Any = document
        for key in parents:
            place = place[int(key)] if isinstance(place, list) else place[key]
        if isinstance(place, list):
            assert last == "-"
            place.append(change["value"])
        else:
            place[last] = change["value"]
    return document


def rewritten(document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    found = rewrite(document, CARDS)
    return patched(document, found.patch), found.templates


@pytest.mark.parametrize("row", TABLE, ids=str)
def test_table(row: dict[str, Any]) -> None:
    """Each way to ask has its shape, and each wrong one its line."""
    resources = {kind: row[kind] for kind in ("limits", "requests") if kind in row}
    metadata = {kind: row[kind] for kind in ("labels", "annotations") if kind in row}
    fields = {"schedulerName": "kai-scheduler"} if "annotations" in row else {}
    document = pod([container(**resources)], **metadata, **fields)
    if "refused" in row:
        with pytest.raises(CgpuError) as error:
            rewrite(document, CARDS)
        assert row["refused"] in str(error.value)
    elif "nothing" in row:
        assert rewrite(document, CARDS).templates == {}
    else:
        described = template(Shape(*row["shape"]), SIZES)
        assert rewrite(document, CARDS).templates == {name_of(described): described}


def test_several_containers() -> None:
    """Each container has a claim of its own, and those that want the same have one template."""
    limits = {"aliyun.com/gpu-mem": 3}
    containers = [container(limits=limits), container("two", limits=limits), container("none")]
    document = pod(containers, initContainers=[container("first", limits={"aliyun.com/gpu-mem": 1})])
    after, templates = rewritten(document)
    assert len(templates) == 2
    claims = [one["name"] for one in after["spec"]["resourceClaims"]]
    assert claims == ["opencgpu-first", "opencgpu-main", "opencgpu-two"]
    assert after["spec"]["containers"][1]["resources"]["claims"] == [{"name": "opencgpu-two"}]
    assert after["spec"]["containers"][2] == containers[2]


def test_claims_of_the_user_stay() -> None:
    """A pod with claims of its own keeps them; one that has our name is refused."""
    mine = {"name": "nic", "resourceClaimName": "nic"}
    main = container(limits={"aliyun.com/gpu-mem": 3}, claims=[{"name": "nic"}])
    after, _ = rewritten(pod([main], resourceClaims=[mine]))
    assert after["spec"]["resourceClaims"][0] == mine
    assert after["spec"]["containers"][0]["resources"]["claims"] == [
        {"name": "nic"},
        {"name": "opencgpu-main"},
    ]
    with pytest.raises(CgpuError, match="this name is needed for a claim"):
        rewritten(pod([main], resourceClaims=[{**mine, "name": "opencgpu-main"}]))


def test_twice_is_once() -> None:
    """A rewritten pod is not rewritten again: other webhooks may cause a second call."""
    for document in (
        pod([container(limits={"aliyun.com/gpu-mem": 3})]),
        pod([container()], annotations={"gpu-memory": "1024"}, schedulerName="kai-scheduler"),
        pod([container()], annotations={"gpu-fraction": "0.5"}, schedulerName="kai-scheduler"),
    ):
        after, _ = rewritten(document)
        assert rewrite(after, CARDS).patch == []
        after["spec"]["containers"].insert(0, container("sidecar", limits={"aliyun.com/gpu-mem": 1}))
        again, _ = rewritten(after)
        assert [one["name"] for one in again["spec"]["resourceClaims"]] == [
            "opencgpu-main",
            "opencgpu-sidecar",
        ]
    assert rewrite(pod([container()], annotations={"gpu-memory": "x"}), CARDS).patch == []


def test_nothing_asked() -> None:
    """A pod that asks for nothing of ours stays as it is; an amount of 0 goes, since no node has the name."""
    assert rewrite(pod([container(limits={"nvidia.com/gpu": 1})]), CARDS).patch == []
    after, templates = rewritten(pod([container(limits={"aliyun.com/gpu-mem": 0, "cpu": 1})]))
    assert (after["spec"], templates) == (pod([container(limits={"cpu": 1})])["spec"], {})


@pytest.mark.parametrize(("runtime", "refused"), [("nvidia", False), ("cgpu", False), ("kata", True)])
def test_runtime_class(runtime: str, refused: bool) -> None:
    """NVIDIA's runtime class is replaced, as ours calls it; another one is not taken away silently."""
    document = pod([container(limits={"aliyun.com/gpu-mem": 3})], runtimeClassName=runtime)
    if refused:
        with pytest.raises(CgpuError, match="runtimeClassName: kata: a GPU slice takes cgpu"):
            rewritten(document)
    else:
        assert rewritten(document)[0]["spec"]["runtimeClassName"] == "cgpu"


def test_percentages() -> None:
    """A percentage is so much of whichever kind of card; without any card nothing is guessed."""
    document = pod([container(limits={"nvidia.com/gpumem-percentage": 50})])
    _, templates = rewritten(document)
    (request,) = next(iter(templates.values()))["spec"]["devices"]["requests"]
    found = [(one["name"], one["capacity"]["requests"]) for one in request["firstAvailable"]]
    assert found == [("of-15360mi", {"memory": "7680Mi"}), ("of-81920mi", {"memory": "40960Mi"})]
    with pytest.raises(CgpuError, match="no node has published a GPU yet"):
        rewrite(document, Published())


@given(st.lists(RESOURCES, min_size=1, max_size=3), RESOURCES)
def test_any_pod(limits: list[dict[str, Any]], requests: dict[str, Any]) -> None:
    """A pod is refused with a line, or none of our names is left in it and all its claims have templates."""
    containers = [container(f"c{index}", limits=one) for index, one in enumerate(limits)]
    containers[0]["resources"]["requests"] = requests
    try:
        after, templates = rewritten(pod(containers))
    except CgpuError:
        return
    spec = after["spec"]
    for one in spec["containers"]:
        for kind in ("limits", "requests"):
            left = set(one["resources"].get(kind, ())) & set(NAMES)
            assert left <= {"nvidia.com/gpu"}
            assert not left or "claims" not in one["resources"]
    assert {one["resourceClaimTemplateName"] for one in spec.get("resourceClaims", ())} == set(templates)
    assert ("runtimeClassName" in spec) == bool(templates)


def test_very_many_containers_that_ask() -> None:
    """Requests to the API server for one pod are bounded: it has judged no pod's length yet."""
    containers = [container(f"c{one}", limits={"aliyun.com/gpu-mem": one + 1}) for one in range(MOST + 1)]
    assert len(rewritten(pod(containers[1:]))[1]) == MOST
    with pytest.raises(CgpuError, match=f"{MOST + 1} containers ask for parts of GPUs; expected at most"):
        rewritten(pod(containers))


def test_a_very_long_pod() -> None:
    """The time that a pod takes does not grow with the square of its length."""
    containers = [container(f"c{one}", limits={"aliyun.com/gpu-mem": 0}) for one in range(8000)]
    claims = [{"name": f"c{one}", "resourceClaimName": "c"} for one in range(8000)]
    containers += [container(f"a{one}", limits={"aliyun.com/gpu-mem": 1}) for one in range(MOST)]
    began = time.process_time()
    rewrite(pod(containers, resourceClaims=claims), CARDS)
    assert time.process_time() - began < 5


def test_names_are_stable() -> None:
    """The name of a template is part of what nodes and clusters keep: it must not change by a release."""
    described = template(Shape(3072), ())
    assert name_of(described) == name_of(template(Shape(3072), SIZES))
    assert name_of(described).startswith(rewriting.CLAIM_PREFIX)
    assert name_of(described) != name_of(template(Shape(3073), ()))
