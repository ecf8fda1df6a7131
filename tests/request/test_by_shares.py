# SPDX-License-Identifier: Apache-2.0
"""Shares of pods: words of a container's variable, and those of root's file alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu import paths
from cgpu.config.effective import Effective
from cgpu.errors import show
from cgpu.request import pod
from cgpu.request.request import decide, is_silent
from cgpu.request.spec import read
from tests.client.support import MIB, T4, cards, uuid
from tests.grants import grant
from tests.refusal import refused, refused_word_for_word
from tests.request.shares import (
    OTHER_POD,
    OTHER_SHARE,
    POD,
    SHARE,
    SIZE,
    VOID,
    asking,
    by_containerd,
    by_crio,
    put,
    variable,
)
from tests.request.support import every_word, granted, spec

pytestmark = pytest.mark.root

ROOT = "/var/lib/containers/storage/overlay/f00d/merged"
GPUS = cards(T4, T4)
MALFORMED = ": expected OPENCGPU_SHARE_ and a share's id in capitals"
UNPROVEN = (
    f"{variable(SHARE)}: shares are for containers of pods, by a claim, and nothing shows for sure that ",
    "expected the annotations of containerd from 1.6.20 on, or of CRI-O",
)
NODE = {"path": "/dev/nvidia1", "type": "c", "major": 195, "minor": 1}
WHOLE_SHARE = ((grant(0, SIZE, 1, 0),), (uuid(0),))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the shares lie in a folder of the test's own, with one in it."""
    place = tmp_path / "shares"
    monkeypatch.setattr(paths, "SHARES", str(place))
    put(place)
    return place


def give(
    env: dict[str, str], notes: dict[str, str], config: Effective | None = None, **members: object
) -> tuple[object, object]:
    """Return the grants and UUIDs of a container's shares."""
    found = granted(spec(env, notes, **members), GPUS, config or Effective())
    assert found.shares
    return found.grants, found.uuids


@pytest.mark.parametrize("notes", [by_containerd(), by_containerd(container="init"), by_crio(ROOT)])
def test_a_share(notes: dict[str, str]) -> None:
    """The container of a pod that the file names gets what stands there, also where no environment counts."""
    for config in (Effective(), Effective(shared_node=True), Effective(allow_environment=False)):
        assert give(asking(SHARE), notes, config, root={"path": ROOT}) == WHOLE_SHARE


def test_shares_are_merged(folder: Path) -> None:
    """On one card sizes and weights add up, and high priority is of all; on two cards each has its own."""
    third = OTHER_SHARE.replace("0a1b", "0a1c")
    put(folder, share=OTHER_SHARE, memsize=MIB, weight=18, highprio=1)
    put(folder, share=third, memsize=2 * MIB, weight=4, gpu=uuid(1))
    found = give(asking(SHARE, OTHER_SHARE, third), by_containerd())
    assert found == ((grant(0, SIZE + MIB, 19, 1), grant(1, 2 * MIB, 4, 0)), (uuid(0), uuid(1)))
    put(folder, share=OTHER_SHARE, memsize=MIB, weight=20)
    assert give(asking(SHARE, OTHER_SHARE), by_containerd())[0] == (grant(0, SIZE + MIB, 20, 0),)


# --- other pods, other containers, ended claims ---


ANOTHER_POD = f"share {SHARE}: it is not of a claim of this pod ({OTHER_POD})"
ANOTHER_CONTAINER = (
    f"share {SHARE}: the container sidecar does not name its claim train-gpu-x7 in resources.claims; in this "
    "pod it is for: main, init"
)
SANDBOX = f"{variable(SHARE)}: a pod's sandbox has no share; its containers have"


@pytest.mark.parametrize(
    ("notes", "line"),
    [
        (by_containerd(OTHER_POD), ANOTHER_POD),
        (by_crio(ROOT, OTHER_POD), ANOTHER_POD),
        # A pod of CRI-O that writes containerd's annotations stays what CRI-O says.
        ({**by_containerd(POD), **by_crio(ROOT, OTHER_POD)}, ANOTHER_POD),
        (by_containerd(container="sidecar"), ANOTHER_CONTAINER),
        (by_containerd(kind="sandbox"), SANDBOX),
        (by_crio(ROOT, kind="sandbox"), SANDBOX),
    ],
)
def test_whose_a_share_is(notes: dict[str, str], line: str) -> None:
    """A share's id is worth nothing in another pod, in another container, and in a pod's sandbox."""
    root = ROOT if "io.container.manager" in notes else "rootfs"
    for config in (Effective(trust_annotations=trust) for trust in ("auto", "never")):
        for env in (asking(SHARE), {variable(SHARE): SHARE}):
            with refused_word_for_word(line):
                give(env, notes, config, root={"path": root})


def test_shares_that_are_not_to_be_had(folder: Path) -> None:
    """Each share has to be the container's, of a claim that goes on, and of a card that the engine has."""
    put(folder, share=OTHER_SHARE, pods={OTHER_POD: ["main"]})
    with refused(f"share {OTHER_SHARE}: it is not of a claim of this pod"):
        give(asking(SHARE, OTHER_SHARE), by_containerd())
    put(folder, gpu=uuid(7))
    with refused(f"share {SHARE}: its GPU {uuid(7)} is not here"):
        give(asking(SHARE), by_containerd())
    (folder / f"{SHARE}.json").unlink()
    with refused(f"share {SHARE}: it is not on this node, or its claim has ended"):
        give(asking(SHARE), by_containerd())


# --- who says that it is a pod's container ---

PODMAN = {"io.podman.annotations.init": "FALSE"}
LIBPOD = {"io.container.manager": "libpod"}


@pytest.mark.parametrize(
    "notes",
    [
        {},
        # An image's, which podman copies beside its own, and those of a pod of podman.
        {**by_containerd(), **PODMAN},
        {**by_containerd(), **LIBPOD},
        {**by_crio(ROOT), **PODMAN},
        {**by_crio(ROOT), **LIBPOD},
        # An image does not know the path of its root, and containerd's is no proof.
        by_crio("/guessed"),
        by_crio("rootfs"),
        by_crio(""),
        # A pod that lets containerd pass CRI-O's annotations, or CRI-O containerd's.
        {**by_containerd(OTHER_POD), **by_crio("rootfs")},
        {**by_containerd(), "io.container.manager": "cri-o"},
        {**by_containerd(), "io.container.manager": "docker"},
        {**by_containerd(), "io.kubernetes.cri-o.MountPoint": "rootfs"},
        # An old containerd, which does not say which pod.
        {"io.kubernetes.cri.container-type": "container"},
        {**by_containerd(), "io.kubernetes.cri.sandbox-uid": ""},
        # The kubelet's labels prove nothing without CRI-O.
        {"io.kubernetes.pod.uid": POD, "io.kubernetes.container.name": "main"},
    ],
)
@pytest.mark.parametrize("root", [ROOT, "rootfs"])
def test_no_proof_of_a_pod(notes: dict[str, str], root: str) -> None:
    """Annotations that may be the image's or the pod's own give no share, whatever else is said."""
    for config in (Effective(), Effective(trust_annotations="always"), Effective(pod_variables=True)):
        with refused(*UNPROVEN):
            give(asking(SHARE), notes, config, root={"path": root})


forged = st.dictionaries(
    st.sampled_from([*by_containerd(), *by_crio(ROOT), "io.podman.annotations.init", "io.kubernetes.cri.x"]),
    st.sampled_from(
        [
            "container",
            "sandbox",
            "cri-o",
            "libpod",
            "docker",
            OTHER_POD,
            "main",
            "rootfs",
            ROOT,
            "/guessed",
            "",
        ]
    ),
)


@given(forged)
def test_nobody_forges_a_pod(notes: dict[str, str]) -> None:
    """A pod is the one of the engine's own annotations, or none, whatever else stands beside them."""
    own = (POD, "main")
    by_pod = pod.read({**notes, **by_containerd()}, "rootfs")
    assert (by_pod.uid, by_pod.container) in (own, ("", ""))
    by_pod_of_crio = pod.read({**notes, **by_crio(ROOT)}, ROOT)
    assert (by_pod_of_crio.uid, by_pod_of_crio.container) in (own, ("", ""))
    assert by_pod.by_kubernetes
    assert by_pod_of_crio.by_kubernetes
    # An image can write every annotation but podman's own, and does not know where its root will be.
    of_image = {name: text for name, text in notes.items() if text != ROOT}
    for marks in ({"io.podman.annotations.autoremove": "TRUE"}, {"io.container.manager": "libpod"}):
        assert pod.read({**of_image, **marks}, ROOT).uid == ""


# --- the variable ---


TEXTS = [
    SHARE.upper(),
    OTHER_SHARE,
    "",
    "1",
    f"{SHARE}\n",
    f" {SHARE}",
    f"{SHARE},{SHARE}",
    "../../etc/passwd",
]
NAMES = [variable(SHARE).replace("6F1C", "6f1c"), variable(SHARE) + "_", variable(SHARE) + "_2"]
NAMES += ["OPENCGPU_SHARE_", "OPENCGPU_SHARE_0", f"OPENCGPU_SHARE_{SHARE}"]


@pytest.mark.parametrize(
    ("name", "text"), [*((variable(SHARE), text) for text in TEXTS), *((name, SHARE) for name in NAMES)]
)
def test_malformed_variable(name: str, text: str) -> None:
    """A variable that is not exactly what the CDI device sets is refused, alone and beside a right one."""
    for config in (Effective(), Effective(shared_node=True), Effective(pod_variables=True)):
        for env in ({name: text}, {**asking(SHARE), **asking(OTHER_SHARE), name: text}):
            with refused(f"{name}={show(text)}{MALFORMED}"):
                read(spec(env, by_containerd()), config)


@pytest.mark.parametrize("name", ["OPENCGPU_SHARES", variable(SHARE).lower(), "OPENCGPU_MEN"])
def test_a_near_name(name: str) -> None:
    """A name that looks like ours, or has other capitals, is refused in a pod as everywhere."""
    for config in (Effective(), Effective(shared_node=True)):
        with refused(f"variable {name}: there is none of that name"):
            read(spec({name: SHARE, VOID: "void"}, by_containerd()), config)


def test_given_twice() -> None:
    """A variable that is given twice with two values does not count; the same value twice counts."""
    once = f"{variable(SHARE)}={SHARE}"
    for other in (f"{variable(SHARE)}={OTHER_SHARE}", f"{variable(SHARE)}="):
        for env in ([once, other], [other, once]):
            with refused(f"variable {variable(SHARE)}: given twice"):
                read({"process": {"env": env}, "annotations": by_containerd()}, Effective())
    request = read({"process": {"env": [once, once]}, "annotations": by_containerd()}, Effective())
    assert request.shares == (SHARE,)


def test_many() -> None:
    """A container has at most 64 shares; no file is opened for more."""
    ids = [f"{number:08x}{SHARE[8:]}" for number in range(1000)]
    with refused("the container has 1000 shares; expected at most 64"):
        read(spec(asking(*ids), by_containerd()), Effective())
    assert len(read(spec(asking(*ids[:64]), by_containerd()), Effective()).shares) == 64


@pytest.mark.parametrize("suffix", ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT", "_PORT_80_TCP_ADDR"])
def test_variables_of_a_service(suffix: str) -> None:
    """The kubelet's variables for a service that is called opencgpu-share-… are no share."""
    env = {variable(SHARE) + suffix: "10.0.0.1", "OPENCGPU_SHARE" + suffix: "80"}
    request = read(spec(env, by_containerd()), Effective())
    assert request.shares == ()
    assert decide(request, Effective()) is None


# --- beside shares ---

BESIDE = f": the container has the share {SHARE}"


@pytest.mark.parametrize(
    ("env", "notes", "said"),
    [
        *every_word(),
        ({"ALIYUN_COM_GPU_MEM_CONTAINER": "0"}, {}, "ALIYUN_COM_GPU_MEM_CONTAINER=0"),
        ({"OPENCGPU_MEM": ""}, {}, "OPENCGPU_MEM="),
        ({"OPENCGPU_CDI_GPU_1": "1"}, {}, "device opencgpu.io/gpu=1"),
        ({}, {"cdi.k8s.io/x": "nvidia.com/gpu=all"}, "annotation cdi.k8s.io/x=nvidia.com/gpu=all"),
    ],
)
def test_words_beside_a_share(env: dict[str, str], notes: dict[str, str], said: str) -> None:
    """Any other request for a GPU is refused; nothing enlarges a share, or switches slicing off."""
    for config in (Effective(), Effective(pod_variables=True), Effective(shared_node=True)):
        for linux in ({}, {"devices": [NODE]}):
            with refused(f"{said}{BESIDE}"):
                give({**asking(SHARE), **env}, {**by_containerd(), **notes}, config, linux=linux)


@pytest.mark.parametrize("text", ["all", "0", uuid(1), f"{uuid(0)},{uuid(1)}", "GPU-", "x"])
def test_vendors_variable_beside_a_share(text: str) -> None:
    """NVIDIA's variable is `void` beside a share: an engine that lets a pod's own count is refused."""
    with refused(f"{VOID}={show(text)}{BESIDE}, whose device sets this to void"):
        give({**asking(SHARE), VOID: text}, by_containerd())
    # A specification that was edited before names the share's own card.
    assert give({**asking(SHARE), VOID: uuid(0)}, by_containerd()) == WHOLE_SHARE


def test_hami_beside_a_share() -> None:
    """HAMi-core's variables are refused where they mean something."""
    env = {**asking(SHARE), "CUDA_DEVICE_MEMORY_LIMIT": "15g"}
    assert give(env, by_containerd()) == WHOLE_SHARE
    with refused(f"CUDA_DEVICE_MEMORY_LIMIT=15g{BESIDE}"):
        give(env, by_containerd(), Effective(allow_hami_variables=True))


def test_nodes_beside_a_share() -> None:
    """Device nodes, and the rights of a privileged container, change nothing of a share."""
    every = {"devices": [{"allow": True, "access": "rwm"}]}
    for linux in ({"resources": every}, {"devices": [NODE]}, {"devices": [NODE], "resources": every}):
        assert give(asking(SHARE), by_containerd(), linux=linux) == WHOLE_SHARE


def test_a_share_is_no_silence() -> None:
    """A container with a share does not start before the node's configuration is known."""
    assert not is_silent(read(spec(asking(SHARE), by_containerd()), Effective()))
