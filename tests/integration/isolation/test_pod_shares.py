# SPDX-License-Identifier: Apache-2.0
"""Containers of pods with shares, as containerd hands them over: what they get, and what forged ones get."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cgpu import paths, shares
from tests.integration.commands import eventually, must
from tests.integration.conftest import Start
from tests.integration.engine import MIB, TREE, Engine
from tests.integration.images import image_tar, oci_archive
from tests.integration.isolation.test_refusals import message
from tests.integration.probe import NO_MEMORY, step
from tests.integration.runtimes import Docker, Podman, Runc
from tests.integration.test_slice import LIMIT
from tests.request.shares import OTHER_POD, OTHER_SHARE, POD, SHARE, asking, by_containerd, put

INFO = ["/cgpu-probe", "info", "fill=1M:64k"]
HOLD = ["/cgpu-probe", "info", "hold=1000"]
THIRD = OTHER_SHARE.replace("0a1b", "0a1c")
CLOSED = "variables and annotations of a pod ask for no GPU on this node (pod_variables: false"


@pytest.fixture(autouse=True)
def no_shares() -> Iterator[None]:
    """Leave no share's file and no reservation behind."""
    yield
    shutil.rmtree(paths.SHARES, ignore_errors=True)
    for reserved in TREE.glob("*/reserved"):
        for line in reserved.read_text().splitlines():
            (TREE / "inst_ctl").write_text(f"release id={line.split()[0]}")


def prepare(engine: Engine, share: str = SHARE, gpu: int = 0, size: int = LIMIT, **changes: Any) -> None:
    """Do by hand what the node's agent does for a claim: reserve, and write the share's file."""
    engine.write("inst_ctl", f"reserve id={share} gpu={gpu}:{size}:{changes.get('weight', 1)}:0")
    uuid = engine.read(f"{gpu}/uuid").strip()
    put(Path(paths.SHARES), share=share, gpu=uuid, bytes=size, **changes)


def bundle(runc: Runc, env: dict[str, str], notes: dict[str, str], command: list[str] | None = None) -> Path:
    spec = {**runc.spec(command or INFO, env), "annotations": notes}
    return runc.bundle(spec)


def name(runc: Runc) -> str:
    return f"pod{os.getpid()}-{runc.count}"


def refused(runc: Runc, env: dict[str, str], notes: dict[str, str]) -> str:
    """Return the line with which a container is refused."""
    place = bundle(runc, env, notes)
    return message(runc.run_bundle(place, name(runc)))


def users(engine: Engine, gpu: int = 0) -> dict[str, str]:
    """Return who uses each reservation of a card."""
    lines = (line.split() for line in engine.read(f"{gpu}/reserved").splitlines())
    return {words[0]: words[-1] for words in lines}


@pytest.mark.enforcement
def test_a_container_has_its_share(engine: Engine, runc: Runc) -> None:
    """It sees and gets what was reserved, to the byte; the reservation outlives it, and a second start."""
    prepare(engine)
    for _ in range(2):
        place = bundle(runc, asking(SHARE), by_containerd())
        outcome = runc.run_bundle(place, name(runc))
        assert step(outcome, "info").number("total") == LIMIT
        had = step(outcome, "fill")
        assert (had.number("bytes"), had.number("status")) == (LIMIT, NO_MEMORY)
        engine.await_empty()
        assert users(engine) == {SHARE: "-"}
    engine.write("inst_ctl", f"release id={SHARE}")
    assert users(engine) == {}


@pytest.mark.enforcement
def test_shares_are_merged(engine: Engine, runc: Runc) -> None:
    """Two shares of one card add up."""
    prepare(engine, size=2048 * MIB)
    prepare(engine, THIRD, size=1024 * MIB)
    outcome = runc.run_bundle(bundle(runc, asking(SHARE, THIRD), by_containerd()), name(runc))
    assert step(outcome, "info").number("total") == 3072 * MIB


def test_one_container_at_a_time(engine: Engine, runc: Runc) -> None:
    """A share that a container uses starts no second one, and is not released."""
    prepare(engine)
    process = runc.spawn(bundle(runc, asking(SHARE), by_containerd(), HOLD), first := name(runc))
    try:
        eventually(lambda: engine.instances() == [first], f"{first} is registered")
        assert users(engine) == {SHARE: first}
        line = refused(runc, asking(SHARE), by_containerd(container="init"))
        assert first in line
        assert SHARE in line
        with pytest.raises(OSError, match="busy"):
            engine.write("inst_ctl", f"release id={SHARE}")
    finally:
        runc.end(first)
        process.wait(timeout=60)
    engine.await_empty()
    engine.write("inst_ctl", f"release id={SHARE}")


def test_forged_shares(engine: Engine, runc: Runc) -> None:
    """No other pod, container or engine's user has a share by its variable."""
    prepare(engine)
    for notes, why in (
        (by_containerd(OTHER_POD), f"share {SHARE}: it is not of a claim of this pod ({OTHER_POD})"),
        (by_containerd(container="sidecar"), "the container sidecar does not name its claim train-gpu-x7"),
        (by_containerd(kind="sandbox"), "a pod's sandbox has no share"),
        ({}, "shares are for containers of pods, by a claim"),
        ({**by_containerd(), "io.podman.annotations.init": "TRUE"}, "shares are for containers of pods"),
    ):
        assert why in refused(runc, asking(SHARE), notes)
    for more in ({"OPENCGPU_MEM": "15109M"}, {"CGPU_DISABLE": "1"}, {"NVIDIA_VISIBLE_DEVICES": "all"}):
        assert "the container has the share" in refused(runc, {**asking(SHARE), **more}, by_containerd())
    assert users(engine) == {SHARE: "-"}
    assert engine.instances() == []


def test_an_ended_claim(engine: Engine, runc: Runc) -> None:
    """Without the file, and without the reservation, there is no share; a file alone promises nothing."""
    prepare(engine)
    engine.write("inst_ctl", f"release id={SHARE}")
    assert f"share {SHARE}" in refused(runc, asking(SHARE), by_containerd())
    shares.remove(SHARE)
    assert "it is not on this node, or its claim has ended" in refused(runc, asking(SHARE), by_containerd())
    assert engine.instances() == []


def test_others_have_no_share(engine: Engine, docker: Docker, podman: Podman, tmp_path: Path) -> None:
    """docker and podman run with a share's variable are refused, and so is an image that has it.

    podman is, whatever annotations are given to it, as an image's would be.
    """
    prepare(engine)
    why = "shares are for containers of pods"
    assert why in message(docker.run(INFO, asking(SHARE)))
    notes = [word for key, value in by_containerd().items() for word in ("--annotation", f"{key}={value}")]
    assert why in message(podman.run(INFO, asking(SHARE), *notes))
    env = [f"{key}={value}" for key, value in asking(SHARE).items()]
    archive = oci_archive(image_tar(tmp_path), tmp_path, INFO, Env=env)
    loaded = must(["docker", "-H", docker.socket, "load", "-i", archive], timeout=120).stdout
    image = loaded.rpartition(": ")[2].strip()
    try:
        outcome = docker.run(INFO, {}, image=image)
    finally:
        # It has the name of the other tests' image.
        docker.call("import", str(tmp_path / "image.tar"), image)
    assert why in message(outcome)


def test_pods_ask_by_no_words(start: Start, runc: Runc) -> None:
    """A pod's variables and annotations are refused, unless the node lets pods ask by them."""
    start("T4")
    for env, notes in (
        ({"OPENCGPU_MEM": "6G"}, {}),
        ({"NVIDIA_VISIBLE_DEVICES": "all"}, {}),
        ({}, {"opencgpu.io/mem": "6G"}),
    ):
        assert CLOSED in refused(runc, env, {**by_containerd(), **notes})
    start("T4", pod_variables=True)
    outcome = runc.run_bundle(bundle(runc, {"OPENCGPU_MEM": "1G"}, by_containerd()), name(runc))
    assert step(outcome, "info").number("total") == 1 << 30


def test_equal_shares_on_two_cards(start: Start, runc: Runc) -> None:
    """Of shares of equal sizes each container has its own claim's card, whatever the order of starts."""
    engine = start("T4:2")
    prepare(engine, OTHER_SHARE, 1, pods={OTHER_POD: ["main"]})
    prepare(engine, SHARE, 0)
    for share, pod, gpu in ((OTHER_SHARE, OTHER_POD, "1"), (SHARE, POD, "0"), (OTHER_SHARE, OTHER_POD, "1")):
        place = bundle(runc, asking(share), by_containerd(pod), HOLD)
        process = runc.spawn(place, name(runc))
        try:
            engine_has(engine, gpu, name(runc))
        finally:
            runc.end(name(runc))
            process.wait(timeout=60)
        engine.await_empty()


def engine_has(engine: Engine, gpu: str, container: str) -> None:
    """Wait until a container is registered, and on this card alone."""
    eventually(lambda: engine.instances(gpu) == [container], f"{container} is on GPU {gpu}")
    assert engine.instances("1" if gpu == "0" else "0") == []
