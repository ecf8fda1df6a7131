# SPDX-License-Identifier: Apache-2.0
"""The wrapper with containers of pods: their shares, and requests past Kubernetes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.request.shares import OTHER_POD, OTHER_SHARE, POD, SHARE, asking, by_containerd, put
from tests.runtime_config.oci_runtime.wrapper import DEAR, FIRST, Wrapper, refusal
from tests.runtime_config.support import ASKING, MIB, OTHER, UUID, JsonObject, spec

pytestmark = pytest.mark.root

CLOSED = (
    "variables and annotations of a pod ask for no GPU on this node (pod_variables: false in "
    "/etc/cgpu/config.yaml); ask by resources, such as aliyun.com/gpu-mem, or by a claim"
)


def pod(*ids: str, uid: str = POD) -> JsonObject:
    """Return what containerd makes of a pod's container with shares."""
    return spec(*(f"{name}={text}" for name, text in asking(*ids).items()), annotations=by_containerd(uid))


@pytest.fixture
def wrapper(wrapper: Wrapper) -> Wrapper:
    """Return a node with one share for a container of a pod, on its first card."""
    put(wrapper.shares, gpu=UUID)
    return wrapper


def test_a_share(wrapper: Wrapper) -> None:
    """The container gets the nodes of its share's card, and the hook's line the share in place of grants."""
    wrapper.bundle(pod(SHARE))
    assert wrapper.create().status == 0
    edited = wrapper.edited()
    assert edited["hooks"]["prestart"][0]["args"][2:] == [str(wrapper.tree), f"create id=c1 share={SHARE}"]
    assert edited["hooks"]["poststop"][0]["args"][2:] == [str(wrapper.tree), "destroy id=c1"]
    assert f"NVIDIA_VISIBLE_DEVICES={UUID}" in edited["process"]["env"]
    assert "NVIDIA_VISIBLE_DEVICES=void" not in edited["process"]["env"]
    assert [mount["destination"] for mount in edited["mounts"]] == ["/proc", "/dev/nvidiactl", "/dev/nvidia0"]
    assert edited["linux"]["seccomp"]["listenerMetadata"] == "c1"
    assert wrapper.started()[-1] == "c1"


@pytest.mark.parametrize("module", [False, True], ids=["daemon", "module"])
def test_shares_of_two_cards(wrapper: Wrapper) -> None:
    """Several shares are merged: each card is given once, under either engine."""
    third = OTHER_SHARE.replace("0a1b", "0a1c")
    put(wrapper.shares, gpu=UUID)
    put(wrapper.shares, gpu=UUID, share=third, memsize=MIB)
    put(wrapper.shares, gpu=OTHER, share=OTHER_SHARE)
    wrapper.bundle(pod(SHARE, OTHER_SHARE, third))
    for _ in range(2):  # an edited bundle is edited to the same again
        assert wrapper.create().status == 0
        edited = wrapper.edited()
        line = f"create id=c1 share={OTHER_SHARE} share={third} share={SHARE}"
        assert edited["hooks"]["prestart"][0]["args"][-1] == line
        assert len(edited["hooks"]["prestart"]) == 1
        assert f"NVIDIA_VISIBLE_DEVICES={UUID},{OTHER}" in edited["process"]["env"]


@pytest.mark.parametrize(
    ("document", "line"),
    [
        (pod(SHARE, uid=OTHER_POD), f"share {SHARE}: it is not of a claim of this pod ({OTHER_POD})"),
        (spec(*ASKING, annotations=by_containerd()), f"ALIYUN_COM_GPU_MEM_CONTAINER=6: {CLOSED}"),
    ],
)
def test_refused(wrapper: Wrapper, document: JsonObject, line: str) -> None:
    """A forged share, and a word of a pod, is refused before anything is done; tests/request has the rest."""
    wrapper.bundle(document)
    assert refusal(wrapper).startswith(line)


def test_where_the_configuration_is_not_known(wrapper: Wrapper, tmp_path: Path) -> None:
    """While no engine has read the configuration since the start, a share waits, too."""
    (wrapper.base / "config.yaml").write_text("shared_node: true\n")
    (wrapper.run_directory / "config.json").unlink()
    wrapper.bundle(pod(SHARE))
    assert "no engine has read it since this machine started" in refusal(wrapper)


@pytest.mark.parametrize("module", [False, True], ids=["daemon", "module"])
def test_what_is_imported(alone: Wrapper) -> None:
    """Nothing dear is imported on the way to an edited spec, and nothing of shares without one."""
    put(alone.shares, gpu=UUID)
    assert "cgpu.shares" not in alone.imported(spec(*ASKING, FIRST))
    found = alone.imported(pod(SHARE))
    assert {"cgpu.shares", "cgpu.runtime_config.oci_runtime.edit"} <= found
    assert not found & DEAR
