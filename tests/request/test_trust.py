# SPDX-License-Identifier: Apache-2.0
"""Which source counts: annotation before environment before the node's default."""

from __future__ import annotations

import pytest

from cgpu.config.effective import Effective
from cgpu.request.resolve import Allocation
from tests.client.support import MIB, T4, cards, uuid
from tests.grants import grant
from tests.refusal import refused
from tests.request.support import ENV, allocate, granted, is_by_default, spec, wants

NOTES = {"opencgpu.io/mem-container": "3", "opencgpu.io/mem-dev": "15"}
BY_NOTES = T4 * 3 // 15 * MIB
VENDOR = "NVIDIA_VISIBLE_DEVICES"
# Nodes on which pods ask by variables and annotations as other containers do; test_pod.py has the others.
DEFAULTS = Effective(pod_variables=True)
ONLY_NOTES = Effective(allow_environment=False, pod_variables=True)


def get(env: dict[str, str], notes: dict[str, str], config: Effective = DEFAULTS, *mib: int) -> Allocation:
    return granted(spec(env, notes), cards(*(mib or (T4,))), config)


def is_sliced(env: dict[str, str], notes: dict[str, str], config: Effective = DEFAULTS) -> bool:
    return allocate(spec(env, notes), cards(T4), config) is not None


def test_annotation_wins() -> None:
    """An annotation beats the variable of the same meaning."""
    request = get({**ENV, "ALIYUN_COM_GPU_SCHD_WEIGHT": "9"}, {**NOTES, "opencgpu.io/schd-weight": "4"})
    assert request.grants == (grant(0, BY_NOTES, 4, 0),)
    assert is_sliced(ENV, {"opencgpu.io/mem-container": ""})  # an empty one is none


def test_all_annotations() -> None:
    """Every variable has its annotation."""
    notes = {**NOTES, "opencgpu.io/visible-devices": "1", "opencgpu.io/high-prio": "1"}
    request = get({}, notes, DEFAULTS, T4, T4)
    assert request.grants == (grant(1, BY_NOTES, 1, 1),)
    assert not is_sliced({}, {**notes, "opencgpu.io/disable": "true"})


def test_environment_cannot_enlarge() -> None:
    """With the amount from an annotation, MEM_DEV of the environment does not count."""
    request = get({"ALIYUN_COM_GPU_MEM_DEV": "3"}, {"opencgpu.io/mem-container": "3"})
    assert request.grants[0][1] == T4 * 3 // 14 * MIB


def test_environment_cannot_switch_off() -> None:
    """With the amount from an annotation, CGPU_DISABLE and an amount of 0 in the environment are void."""
    assert is_sliced({"CGPU_DISABLE": "true", "ALIYUN_COM_GPU_MEM_CONTAINER": "0"}, NOTES)


@pytest.mark.parametrize(
    ("env", "notes"),
    [({}, {"opencgpu.io/visible-devices": "1"}), ({"ALIYUN_COM_GPU_VISIBLE_DEVICES": "1"}, {})],
    ids=["GPUs from an annotation", "amount alone from an annotation"],
)
def test_environment_cannot_add_native(env: dict[str, str], notes: dict[str, str]) -> None:
    """With the amount from an annotation, the environment chooses slices, and adds nothing whole."""
    request = get({VENDOR: "0,1", **env}, {**NOTES, **notes}, DEFAULTS, T4, T4)
    assert (request.passthrough, request.uuids) == ((), (uuid(1),))


def test_native_needs_that_slicing_can_be_switched_off() -> None:
    """Where slicing cannot be switched off, no GPU is given whole beside slices."""
    env = {**ENV, VENDOR: "0,1", "ALIYUN_COM_GPU_VISIBLE_DEVICES": "1"}
    with refused(f"{VENDOR}=0,1: GPU 0 would not be sliced", "name it in ALIYUN_COM_GPU_VISIBLE_DEVICES"):
        get(env, {}, Effective(allow_disable=False), T4, T4)


def test_environment_off() -> None:
    """Where the environment does not count, it is no request and is not validated."""
    assert not is_sliced({**ENV, "CGPU_DISABLE": "nonsense"}, {}, ONLY_NOTES)
    request = get({**ENV, "CGPU_DISABLE": "true", "ALIYUN_COM_GPU_HIGH_PRIO": "1"}, NOTES, ONLY_NOTES)
    assert request.grants == (grant(0, BY_NOTES, 1, 0),)
    # The vendor's variable still tells which GPUs are meant, because the vendor obeys it anyway.
    assert get({VENDOR: "1"}, NOTES, ONLY_NOTES, T4, T4).grants[0][0] == 1


@pytest.mark.parametrize("name", ["io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"])
def test_sandbox(name: str) -> None:
    """A pod's sandbox carries its annotations and asks for nothing by them; its environment counts."""
    assert not is_sliced({}, {**NOTES, name: "sandbox"})
    assert is_sliced({}, {**NOTES, name: "container"})
    assert get(ENV, {**NOTES, name: "sandbox"}).grants[0][1] == T4 * 6 // 15 * MIB
    assert is_sliced({VENDOR: "0"}, {name: "sandbox"}, DEFAULTS.replace(default_memsize=1 << 30))


@pytest.mark.parametrize("env", [{VENDOR: "0"}, {"ALIYUN_COM_GPU_VISIBLE_DEVICES": "0"}])
def test_sandbox_with_a_gpu_where_slicing_stays_on(env: dict[str, str]) -> None:
    """Where slicing cannot be switched off, a sandbox that names a GPU is refused."""
    mark = {"io.kubernetes.cri.container-type": "sandbox"}
    with refused(f"{next(iter(env))}=0: a pod's sandbox is not sliced, and slicing cannot be switched off"):
        get(env, mark, DEFAULTS.replace(allow_disable=False))
    assert not is_sliced({}, {**NOTES, **mark}, Effective(allow_disable=False))


PODMAN = {"io.podman.annotations.init": "FALSE"}
CRIO = {"io.container.manager": "cri-o", "io.kubernetes.cri-o.MountPoint": "/c/1/merged"}


def by(
    marks: dict[str, str], env: dict[str, str], config: Effective, root: str = "/c/1/merged"
) -> Allocation:
    """Resolve a request by annotation in the specification of an engine that leaves these marks."""
    document = spec(env, {**NOTES, **marks}, root={"path": root})
    return granted(document, cards(T4), config)


@pytest.mark.parametrize("marks", [{}, CRIO, {"io.kubernetes.cri.container-type": "container"}])
def test_writers_that_are_known(marks: dict[str, str]) -> None:
    """Annotations of docker, containerd and CRI-O come from the user that starts the container."""
    assert by(marks, ENV, ONLY_NOTES).grants[0][1] == BY_NOTES


OF_IMAGE = "annotation opencgpu.io/mem-container=3: it may come from the image"
UNKNOWN = [
    PODMAN,
    {"io.container.manager": "libpod"},
    {"io.container.manager": "cri-o"},
    {"io.container.manager": "docker"},
    {**CRIO, **PODMAN},
    {**CRIO, "io.kubernetes.cri-o.MountPoint": "/guessed"},
]


@pytest.mark.parametrize("marks", UNKNOWN)
def test_writers_that_are_not_known(marks: dict[str, str]) -> None:
    """Annotations that podman may have copied are refused beside an environment, or without one."""
    for env, config, why in (
        (ENV, DEFAULTS, "ALIYUN_COM_GPU_MEM_CONTAINER is set too"),
        ({}, ONLY_NOTES, "allow_environment is false"),
        ({}, Effective(shared_node=True), "allow_environment is false"),
    ):
        with refused(OF_IMAGE, why, "accepted where trust_annotations: always"):
            by(marks, env, config)
    by(marks, {}, DEFAULTS)
    # By the node's word all count, or none counts more than an environment.
    by(marks, ENV, DEFAULTS.replace(trust_annotations="always"))
    with refused(OF_IMAGE):
        by({}, ENV, Effective(trust_annotations="never"))


def test_annotations_of_unknown_writers_are_no_trusted_voice() -> None:
    """Beside them the vendor's variable adds whole GPUs, as beside an environment."""
    document = spec({VENDOR: "0,1"}, {**NOTES, **PODMAN, "opencgpu.io/visible-devices": "1"})
    assert granted(document, cards(T4, T4), Effective()).passthrough == (0,)


def test_empty_root_is_no_proof() -> None:
    """A specification without a root file system proves nothing of CRI-O."""
    roots: tuple[object, ...] = (None, {}, {"path": ""}, [])
    for root in roots:
        document = spec(ENV, {**NOTES, **CRIO, "io.kubernetes.cri-o.MountPoint": ""}, root=root)
        with refused(OF_IMAGE):
            allocate(document, cards(T4), Effective())


def test_default_memsize() -> None:
    """The node's default slices a container that names a GPU and no amount, and no other."""
    config = Effective(default_memsize=4 << 30)
    assert get({VENDOR: "0"}, {}, config).grants == (grant(0, 4 << 30, 1, 0),)
    off = ({"CGPU_DISABLE": "1"}, {"ALIYUN_COM_GPU_MEM_CONTAINER": "0"})
    for env in ({}, {VENDOR: "void"}, *({VENDOR: "all", **switch} for switch in off)):
        assert not is_sliced(env, {}, config)
    # The default is rounded down to whole MiB.
    assert get({VENDOR: "0"}, {}, Effective(default_memsize=MIB + 5)).grants[0][1] == MIB


def test_defers() -> None:
    """Only a container that names a GPU and no amount depends on the tree's default."""
    for env in ({VENDOR: "0"}, {"ALIYUN_COM_GPU_VISIBLE_DEVICES": "0"}):
        assert is_by_default(spec(env))
    for env in ({}, {VENDOR: "none"}, {VENDOR: "0", **ENV}, {VENDOR: "0", "CGPU_DISABLE": "true"}):
        assert not is_by_default(spec(env))


def test_forbidden_switch_off_with_default() -> None:
    """Where switching off is forbidden, a container that tries is refused, asked for or not."""
    config = Effective(default_memsize=4 << 30, allow_disable=False)
    with refused("annotation opencgpu.io/disable=1: slicing cannot be switched off"):
        wants(spec({VENDOR: "0"}, {"opencgpu.io/disable": "1"}), config)
