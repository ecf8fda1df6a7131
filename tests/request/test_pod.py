# SPDX-License-Identifier: Apache-2.0
"""pod_variables: every way by which a pod can ask for a GPU past Kubernetes, and who counts as a pod."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cgpu.config.effective import Effective
from cgpu.errors import CgpuError
from tests.client.support import T4, cards
from tests.refusal import refused
from tests.request.shares import VOID, by_containerd, by_crio
from tests.request.support import ENV, allocate, every_word, spec, wants

ROOT = "/var/lib/containers/storage/overlay/f00d/merged"
CLOSED = "variables and annotations of a pod ask for no GPU on this node (pod_variables: false"
DEFAULT = Effective(default_memsize=1 << 30)
HAMI = Effective(allow_hami_variables=True)
VENDOR = Effective(low_level_runtime="/usr/bin/nvidia-container-runtime")
NODE = {"path": "/dev/nvidia1", "type": "c", "major": 195, "minor": 1}
WIDE = {"resources": {"devices": [{"allow": True, "access": "rwm"}]}}
CDI = {"cdi.k8s.io/x": "nvidia.com/gpu=0"}
VOLUME = {"destination": "/var/run/nvidia-container-devices/all", "source": "/dev/null"}

# Variables, annotations, other members, the configuration, and the named word.
WAYS: list[tuple[Mapping[str, str], Mapping[str, str], dict[str, object], Effective, str]] = [
    *((env, notes, {}, Effective(), said) for env, notes, said in every_word()),
    (ENV, {}, {}, Effective(shared_node=True), "ALIYUN_COM_GPU_MEM_CONTAINER=6"),
    (ENV, {}, {}, Effective(allow_environment=False), "ALIYUN_COM_GPU_MEM_CONTAINER=6"),
    ({"ALIYUN_COM_GPU_MEM_CONTAINER": "0"}, {}, {}, Effective(), "ALIYUN_COM_GPU_MEM_CONTAINER=0"),
    ({"OPENCGPU_GPUS": "0"}, {}, {}, DEFAULT, "OPENCGPU_GPUS=0"),
    ({"OPENCGPU_MEM": ""}, {}, {}, Effective(), "OPENCGPU_MEM="),
    ({"CGPU_DISABLE": "true", VOID: "all"}, {}, {}, Effective(), "CGPU_DISABLE=true"),
    ({}, {"opencgpu.io/mem": "6G"}, {}, Effective(shared_node=True), "annotation opencgpu.io/mem=6G"),
    ({}, {"opencgpu.io/gpus": "all"}, {}, DEFAULT, "annotation opencgpu.io/gpus=all"),
    ({"CUDA_DEVICE_MEMORY_LIMIT": "1g"}, {}, {}, HAMI, "CUDA_DEVICE_MEMORY_LIMIT=1g"),
    ({"CUDA_DEVICE_MEMORY_LIMIT_0": "1g"}, {}, {}, HAMI, "CUDA_DEVICE_MEMORY_LIMIT_0=1g"),
    ({"CUDA_DEVICE_SM_LIMIT": "50"}, {}, {}, HAMI, "CUDA_DEVICE_SM_LIMIT=50%"),
    ({"OPENCGPU_CDI_GPU_0": "1"}, {}, {}, Effective(), "device opencgpu.io/gpu=0"),
    ({VOID: "all"}, {}, {}, Effective(), f"{VOID}=all"),
    ({VOID: "0"}, {}, {}, DEFAULT, f"{VOID}=0"),
    ({VOID: "all"}, {}, {}, Effective(shared_node=True), f"{VOID}=all"),
    ({VOID: "all"}, {}, {"linux": {"devices": [NODE]}}, Effective(), f"{VOID}=all"),
    ({VOID: "all"}, {}, {"linux": WIDE}, Effective(allow_privileged=True), f"{VOID}=all"),
    ({"CUDA_VERSION": "8.0"}, {}, {}, VENDOR, "CUDA_VERSION=set"),
    ({"CUDA_VERSION": "8.0"}, {}, {"linux": {"devices": [NODE]}}, VENDOR, "CUDA_VERSION=set"),
    ({}, CDI, {}, Effective(), "annotation cdi.k8s.io/x=nvidia.com/gpu=0"),
    ({}, CDI, {"linux": {"devices": [NODE]}}, Effective(), "annotation cdi.k8s.io/x=nvidia.com/gpu=0"),
    ({}, {}, {"mounts": [VOLUME]}, Effective(), f"mount={VOLUME['destination']}"),
]


@pytest.mark.parametrize(("env", "notes", "members", "config", "said"), WAYS)
@pytest.mark.parametrize("engine", ["containerd", "crio", "crio that podman is said to be"])
def test_every_way(
    engine: str,
    env: dict[str, str],
    notes: dict[str, str],
    members: dict[str, object],
    config: Effective,
    said: str,
) -> None:
    """A container of a pod that asks by any word is refused, and the line says how pods ask."""
    marks = by_containerd() if engine == "containerd" else by_crio(ROOT)
    if engine.endswith("is said to be"):
        if notes:
            return  # refused before, as they may be of an image: see test_trust.py
        marks = {**marks, "io.podman.annotations.init": "TRUE"}
    document = spec(env, {**notes, **marks}, root={"path": ROOT}, **members)
    for trust in ("auto", "always"):
        with refused(f"{said}: {CLOSED}"):
            wants(document, config.replace(trust_annotations=trust))


@pytest.mark.parametrize(("env", "notes", "members", "config", "said"), WAYS)
def test_pods_of_podman_are_none_of_kubernetes(
    env: dict[str, str], notes: dict[str, str], members: dict[str, object], config: Effective, said: str
) -> None:
    """podman's own pods have CRI-O's annotations, too: they are judged as other containers of podman."""
    marks = {"io.kubernetes.cri-o.ContainerType": "container", "io.kubernetes.cri-o.SandboxID": "x"}
    for podman in ({"io.podman.annotations.init": "FALSE"}, {"io.container.manager": "libpod"}):
        document = spec(env, {**notes, **marks, **podman}, root={"path": ROOT}, **members)
        plain = spec(env, {**notes, **podman}, root={"path": ROOT}, **members)
        assert outcome(document, config) == outcome(plain, config)


def outcome(document: dict[str, object], config: Effective) -> object:
    """Return what comes of a request: its grants, nothing, or the line of its refusal."""
    try:
        found = allocate(document, cards(T4), config)
    except CgpuError as error:
        return str(error)
    return None if found is None else found.grants


def test_marks_of_containerd_make_a_pod_whatever_else_is_said() -> None:
    """A pod whose engine lets podman's marks pass, or an image with containerd's, asks by no word."""
    for podman in ({"io.podman.annotations.init": "FALSE"}, {"io.container.manager": "libpod"}):
        with refused(f"OPENCGPU_MEM=6G: {CLOSED}"):
            wants(spec({"OPENCGPU_MEM": "6G"}, {**by_containerd(), **podman}), Effective())


@pytest.mark.parametrize("marks", [by_containerd(), by_crio(ROOT)])
def test_pods_that_ask_for_nothing(marks: dict[str, str]) -> None:
    """A pod without a word starts; so does a sandbox, which has its pod's annotations."""
    for env in ({}, {VOID: "void"}, {VOID: "none"}, {VOID: ""}, {"CUDA_VERSION": "12"}):
        for config in (Effective(), Effective(shared_node=True)):
            assert not wants(spec(env, marks, root={"path": ROOT}), config)
    for name in ("io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"):
        sandbox = {**marks, name: "sandbox", "opencgpu.io/mem": "6G"}
        assert not wants(spec({}, sandbox, root={"path": ROOT}), Effective())


@pytest.mark.parametrize("linux", [{"devices": [NODE]}, WIDE])
def test_given_nodes_are_judged_as_elsewhere(linux: dict[str, object]) -> None:
    """Device nodes and privileges name GPUs in a pod as in any container."""
    for config in (Effective(), DEFAULT, Effective(shared_node=True), Effective(allow_privileged=True)):
        document = spec({}, by_containerd(), linux=linux)
        assert outcome(document, config) == outcome(spec({}, linux=linux), config)


def test_without_annotations_nobody_is_a_pod() -> None:
    """Containers of docker, ctr and podman go by variables as before."""
    assert wants(spec({"OPENCGPU_MEM": "6G"}, {}), Effective())
    assert wants(spec({"OPENCGPU_MEM": "6G"}, {"io.kubernetes.pod.uid": "x"}), Effective())
