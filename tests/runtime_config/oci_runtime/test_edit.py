# SPDX-License-Identifier: Apache-2.0
"""Everything a spec gets for a slice, and that all else in it stays."""

from __future__ import annotations

import copy
import json
import os
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.config.effective import Effective
from cgpu.errors import CgpuError
from cgpu.request.resolve import Allocation
from cgpu.runtime_config.oci_runtime.edit import HARMLESS, HOOK_PATH, Node, edit
from cgpu.runtime_config.oci_runtime.fields import check_members
from cgpu.runtime_config.oci_runtime.spec_json import dumps, loads
from tests.runtime_config.support import (
    ASKING,
    MIB,
    OTHER,
    REQUEST,
    ROOT,
    UUID,
    JsonObject,
    description,
    node,
    spec,
)

HOOK_ENV = ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"]


def edited(document: JsonObject, request: Allocation = REQUEST, where: Node | None = None) -> JsonObject:
    result = copy.deepcopy(document)
    edit(result, "c1", request, where or node())
    return result


def variable(document: JsonObject, name: str) -> list[str]:
    entries = [entry.partition("=") for entry in document["process"]["env"]]
    return [value for found, _, value in entries if found == name]


@pytest.mark.parametrize(
    "name",
    [
        "run.oci.seccomp_bpf_data",
        "run.oci.handler",
        "run.oci.of-tomorrow",
        "module.wasm.image/variant",
        "krun.variant",
    ],
)
def test_annotations_for_crun_are_refused(name: str) -> None:
    """Annotations that make crun filter, run or write something else are refused, and new ones with them."""
    with pytest.raises(
        CgpuError, match=rf"^annotation {name}=x: it may change what the low-level runtime runs"
    ):
        edited(spec(annotations={name: "x"}))


def test_annotations_that_change_no_filter_stay() -> None:
    """Other annotations stay as they are, those of crun that are harmless among them."""
    notes = dict.fromkeys([*HARMLESS, "io.kubernetes.cri.container-type", "run.ocicle"], "1")
    assert edited(spec(annotations=notes))["annotations"] == notes


@pytest.mark.parametrize("which", ["bounding", "effective", "permitted"])
def test_tracing_is_refused_where_users_do_not_trust_each_other(which: str) -> None:
    """A right by which a process runs without the filter is refused on a shared node, with cgpud alone."""
    document = spec()
    document["process"]["capabilities"] = {which: ["CAP_KILL", "CAP_SYS_PTRACE"]}
    shared = Effective(shared_node=True)
    for where in (node(), node(config=shared, listener=False)):
        assert edited(document, where=where)["process"]["capabilities"] == document["process"]["capabilities"]
    with pytest.raises(CgpuError, match=r"process\.capabilities: CAP_SYS_PTRACE: by it a process can run"):
        edited(document, where=node(config=shared))
    document["process"]["capabilities"][which].pop()
    edited(document, where=node(config=shared))


def test_hooks_of_a_slice() -> None:
    """Both hooks have an absolute path, their own environment, a timeout, and a line for the engine."""
    request = Allocation(((0, 6043 * MIB, 2, 1), (1, 3 * MIB, 1, 0)), (), (UUID, OTHER))
    line = "create id=c1 gpu=0:6336544768:2:1 gpu=1:3145728:1:0"
    common = {"path": HOOK_PATH, "env": HOOK_ENV, "timeout": 10}
    assert edited(spec(), request)["hooks"] == {
        "prestart": [{**common, "args": ["cgpu-hook", "prestart", "/run/cgpu_km", line]}],
        "poststop": [{**common, "args": ["cgpu-hook", "poststop", "/run/cgpu_km", "destroy id=c1"]}],
    }
    assert str(ROOT / "hook" / "cgpu-hook") == HOOK_PATH
    assert os.access(HOOK_PATH, os.X_OK)


def test_existing_hooks_follow_ours() -> None:
    """Hooks that were there keep their order, after ours."""
    before = {
        "prestart": [{"path": "/a"}, {"path": "/b"}],
        "poststop": [{"path": "/c"}],
        "createRuntime": [{"path": "/d"}],
    }
    after = edited(spec(hooks=before))["hooks"]
    assert {stage: [hook["path"] for hook in after[stage]] for stage in before} == {
        "prestart": [HOOK_PATH, "/a", "/b"],
        "poststop": [HOOK_PATH, "/c"],
        "createRuntime": ["/d"],
    }


def test_hooks_that_pretend_to_be_ours_are_dropped() -> None:
    """A hook with our path and other grants, at any stage, does not survive."""
    forged = {"path": HOOK_PATH, "args": ["cgpu-hook", "prestart", "/x", "create id=c1 gpu=0:999999999999"]}
    after = edited(spec(hooks={"prestart": [forged], "createRuntime": [forged], "poststart": [forged]}))
    assert "999999999999" not in json.dumps(after)
    assert [len(entries) for entries in after["hooks"].values()] == [1, 0, 0, 1]


@pytest.mark.parametrize(
    ("vendor_can", "vendor_runs", "value", "mounted"),
    [
        (True, True, UUID, False),
        (True, False, UUID, True),
        (False, True, "void", True),
        (False, False, UUID, True),
    ],
)
def test_who_provides_the_cards(vendor_can: bool, vendor_runs: bool, value: str, mounted: bool) -> None:
    """The vendor's runtime provides the cards it can; otherwise it stays idle and we provide them."""
    before = spec("NVIDIA_VISIBLE_DEVICES=all", "A=1", "NVIDIA_VISIBLE_DEVICES=7")
    after = edited(before, where=node(description(vendor=vendor_can), vendor_runtime=vendor_runs))
    assert variable(after, "NVIDIA_VISIBLE_DEVICES") == [value]
    assert ("/dev/nvidia0" in json.dumps(after["mounts"])) is mounted


@pytest.mark.parametrize(("vendor_can", "value"), [(False, "void"), (True, UUID)])
def test_a_vendor_hook(vendor_can: bool, value: str) -> None:
    """The vendor's older hook, put there by docker, learns of the cards where it can provide them."""
    hook = {"path": "/usr/bin/nvidia-container-runtime-hook"}
    after = edited(spec(hooks={"prestart": [hook]}), where=node(description(vendor=vendor_can)))
    assert variable(after, "NVIDIA_VISIBLE_DEVICES") == [value]
    assert hook in after["hooks"]["prestart"]


def test_the_tree_is_masked() -> None:
    """The places of the engine and a configured tree are masked, beside what was masked before."""
    where = node(tree="/elsewhere")
    after = edited(spec(linux={"maskedPaths": ["/proc/keys", "/proc/cgpu_km"]}), where=where)["linux"]
    assert after["maskedPaths"] == ["/proc/keys", "/proc/cgpu_km", "/run/cgpu_km", "/run/cgpu", "/elsewhere"]
    privileged = edited(spec(linux={"maskedPaths": None}))["linux"]
    assert privileged["maskedPaths"] == ["/proc/cgpu_km", "/run/cgpu_km", "/run/cgpu"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"readonlyPaths": ["/proc/bus", "/proc/sys"]}, ["/proc/bus", "/proc/sys", "/proc/driver/nvidia"]),
        ({"readonlyPaths": ["/proc/driver/nvidia"]}, ["/proc/driver/nvidia"]),
        ({"readonlyPaths": None}, ["/proc/driver/nvidia"]),
        ({}, ["/proc/driver/nvidia"]),
    ],
)
def test_files_of_the_driver_are_read_only(before: dict[str, Any], after: list[str]) -> None:
    """No slice can write the driver's settings, which count for all containers; under both engines."""
    for listener in (True, False):
        where = node(listener=listener)
        assert edited(spec(linux=dict(before)), where=where)["linux"]["readonlyPaths"] == after


def test_whole_cards_beside_slices_are_given_alike() -> None:
    """A GPU that stays whole gets its nodes as a sliced one does, and the hook registers it as such."""
    after = edited(spec(), Allocation(REQUEST.grants, (1,), (UUID, OTHER)))
    assert after["hooks"]["prestart"][0]["args"][-1].endswith(" native=1")
    assert [mount["destination"] for mount in after["mounts"]][-2:] == ["/dev/nvidia0", "/dev/nvidia1"]
    vendor = node(description(vendor=True), vendor_runtime=True)
    both = edited(spec(), Allocation(REQUEST.grants, (1,), (UUID, OTHER)), vendor)
    assert variable(both, "NVIDIA_VISIBLE_DEVICES") == [f"{UUID},{OTHER}"]


UNKNOWN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=6,
)


def with_future(future: object) -> JsonObject:
    """Return a spec with a field of a later specification at every level."""
    place = {"futureField": future}
    linux = {
        "seccomp": {"defaultAction": "SCMP_ACT_ALLOW", **place},
        "resources": {"memory": place, **place},
        **place,
    }
    return spec(*ASKING, linux=linux, hooks={"prestart": [{"path": "/a", **place}]}, vm=place, **place)


def collect(value: object) -> list[str]:
    """Return every futureField of a document as text."""
    if isinstance(value, list):
        return [text for inner in value for text in collect(inner)]
    if not isinstance(value, dict):
        return []
    own = [dumps(value["futureField"]).decode()] if "futureField" in value else []
    return own + [text for key, inner in value.items() if key != "futureField" for text in collect(inner)]


@given(UNKNOWN)
def test_unknown_fields_are_kept(future: object) -> None:
    """A field that no one knows yet comes out as it went in, at every level."""
    before = loads(json.dumps(with_future(future)).encode())
    assert isinstance(before, dict)
    after = loads(dumps(edited(before)))
    assert collect(after) == collect(before)
    assert isinstance(after, dict)
    assert [key for key in after if key in before] == list(before)


@given(UNKNOWN, st.booleans(), st.booleans())
def test_twice_is_like_once(future: object, vendor_can: bool, vendor_runs: bool) -> None:
    """Editing an edited spec changes nothing, so that a bundle can be started again."""
    where = node(description(vendor=vendor_can), vendor_runtime=vendor_runs)
    once = edited(with_future(future), where=where)
    assert edited(once, where=where) == once


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({"Linux": {}}, "Linux"),
        ({"linux": {"Seccomp": None}}, "Seccomp"),
        ({"linux": {"seccomp": {"listenerpath": ""}}}, "listenerpath"),
        ({"linux": {"seccomp": {"syscalls": [{"Names": ["ioctl"]}]}}}, "Names"),
        ({"proce\u017f\u017f": {}}, "proce\\u017f\\u017f"),
        ({"process": {"ENV": []}}, "ENV"),
        ({"hooks": {"PreStart": []}}, "PreStart"),
    ],
)
def test_another_spelling_of_a_known_field_is_refused(document: JsonObject, name: str) -> None:
    """runc reads field names in any case: a second spelling could undo an edit of the first one."""
    with pytest.raises(CgpuError, match=re.escape(f"the field {name} could be taken for")):
        check_members(document)


@given(UNKNOWN)
def test_spelling_is_checked_without_failing(value: object) -> None:
    """The check of spellings survives any document."""
    documents: list[JsonObject] = [{name: value} for name in ("linux", "process", "hooks")]
    documents.append({"linux": {"seccomp": value}})
    for document in documents:
        with suppress(CgpuError):
            check_members(document)
