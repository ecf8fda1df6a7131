# SPDX-License-Identifier: Apache-2.0
"""Shares that another scheduler has given to a pod: by root's file of the pod, whatever its variables say."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from cgpu import paths, pod_shares
from cgpu.config.effective import Effective
from cgpu.pod_shares import PodShares
from tests.client.support import MIB, T4, cards, uuid
from tests.grants import grant
from tests.refusal import refused
from tests.request.shares import OTHER_POD, OTHER_SHARE, POD, SHARE, SIZE, VOID, by_containerd, put
from tests.request.support import granted, spec, wants

pytestmark = pytest.mark.root

GPUS = cards(T4, T4)
WHOLE = ((grant(0, SIZE, 1, 0),), (uuid(0),), (SHARE,))
# What the device plugins of HAMi, gpushare and Koordinator set, and what a pod may set in their place.
HAMI = {
    VOID: uuid(1),
    "CUDA_DEVICE_MEMORY_LIMIT_0": "15000m",
    "CUDA_DEVICE_SM_LIMIT": "100",
    "CUDA_DEVICE_MEMORY_SHARED_CACHE": "/usr/local/vgpu/x.cache",
}
GPUSHARE = {
    VOID: "no-gpu-has-3GiB-to-run",
    "ALIYUN_COM_GPU_MEM_IDX": "-1",
    "ALIYUN_COM_GPU_MEM_CONTAINER": "15",
    "ALIYUN_COM_GPU_MEM_DEV": "15",
    "CGPU_DISABLE": "true",
}
PLUGINS = [HAMI, GPUSHARE, {VOID: "0,1"}, {VOID: "all"}]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let the shares lie in a folder of the test's own, with one in it, of a node with another scheduler."""
    place = tmp_path / "shares"
    monkeypatch.setattr(paths, "SHARES", str(place))
    monkeypatch.setattr(pod_shares.await_shares, "__defaults__", (0.2,))
    put(place)
    pod_shares.turn_on(str(place))
    return place


def write(folder: Path, pod: str = POD, refusal: str = "", **containers: list[str]) -> None:
    pod_shares.write(pod, PodShares(containers, refusal), str(folder))


def give(
    env: dict[str, str], notes: dict[str, str], config: Effective | None = None, **spec_: object
) -> object:
    found = granted(spec(env, notes, **spec_), GPUS, config or Effective())
    return found.grants, found.uuids, found.shares


@pytest.mark.parametrize("env", PLUGINS)
def test_what_the_scheduler_gave(folder: Path, env: dict[str, str]) -> None:
    """A container has its file's shares, whatever device plugin or pod have set, and more of none.

    HAMi's libraries, which its plugin mounts, change nothing.
    """
    write(folder, main=[SHARE])
    preloaded = [
        {"destination": "/etc/ld.so.preload", "source": "/usr/local/vgpu/ld.so.preload", "type": "bind"}
    ]
    for config in (Effective(), Effective(pod_variables=True), Effective(allow_hami_variables=True)):
        assert give(env, by_containerd(), config) == WHOLE
        assert give(env, by_containerd(), config, mounts=preloaded) == WHOLE
    put(folder, share=OTHER_SHARE, memsize=MIB, gpu=uuid(1), pods={POD: ["main"]})
    write(folder, main=[SHARE, OTHER_SHARE])
    assert give(env, by_containerd()) == (
        (grant(0, SIZE, 1, 0), grant(1, MIB, 1, 0)),
        (uuid(0), uuid(1)),
        (SHARE, OTHER_SHARE),
    )


def test_a_container_waits(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that starts before its pod's file is there has the share once it is."""
    monkeypatch.setattr(pod_shares.await_shares, "__defaults__", (60.0,))
    later = threading.Timer(0.2, lambda: write(folder, main=[SHARE]))
    later.start()
    assert give(HAMI, by_containerd()) == WHOLE
    later.join()


@pytest.mark.parametrize("env", PLUGINS)
def test_nothing_without_a_decision(folder: Path, env: dict[str, str]) -> None:
    """A pod of which nothing is known does not start, nor another container, nor one that was refused."""
    with refused(f"pod {POD}: in 0.2 s this node's agent has read no annotation"):
        give(env, by_containerd())
    write(folder, main=[SHARE])
    with refused(f"pod {POD}: its scheduler has given the container side no GPU"):
        give(env, by_containerd(container="side"))
    # A file by which another pod's share would be given, which nobody but root can write.
    write(folder, OTHER_POD, main=[SHARE])
    with refused(f"share {SHARE}: it is not of a claim of this pod"):
        give(env, by_containerd(OTHER_POD))
    write(folder, refusal="GPU 0 has 3 MiB left")
    with refused(f"pod {POD}: GPU 0 has 3 MiB left"):
        give(env, by_containerd())


def test_files_that_are_none(folder: Path) -> None:
    """A malformed file, one that others can write, and a pod without a UID give nothing."""
    write(folder, main=[SHARE])
    path = folder / f"pods/{POD}.json"
    for text in (
        "[]",
        "{}",
        '{"version": 2, "containers": {}, "refusal": ""}',
        '{"version": 1, "containers": 1}',
    ):
        path.write_text(text)
        with refused(f"{path}: expected the file of a pod's shares of version 1"):
            give(HAMI, by_containerd())
    path.chmod(0o666)
    with refused(f"{path}: mode 0666 lets others write"):
        give(HAMI, by_containerd())
    with refused("pod ../x: the cluster's scheduler has given it no GPU"):
        give(HAMI, by_containerd("../x"))


def test_words_that_no_device_plugin_writes(folder: Path) -> None:
    """A pod's own request beside that decision is refused; a container without a word has no slice."""
    write(folder, main=[SHARE])
    said = "the cluster's scheduler says what this pod gets on this node; leave this out"
    with refused(f"OPENCGPU_MEM=15G: {said}"):
        give({**HAMI, "OPENCGPU_MEM": "15G"}, by_containerd())
    with refused(f"annotation cdi.k8s.io/x=nvidia.com/gpu=all: {said}"):
        give(HAMI, {**by_containerd(), "cdi.k8s.io/x": "nvidia.com/gpu=all"})
    assert not wants(spec({}, by_containerd()), Effective())


def test_a_node_without_another_scheduler(folder: Path) -> None:
    """Once it is off, the files are gone, and pods' variables are refused as on any node."""
    write(folder, main=[SHARE])
    pod_shares.turn_off(str(folder))
    pod_shares.turn_off(str(folder))
    with refused(f"{VOID}={uuid(1)}: variables and annotations of a pod ask for no GPU on this node"):
        give(HAMI, by_containerd())
