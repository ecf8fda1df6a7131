# SPDX-License-Identifier: Apache-2.0
"""GPUs that come without a variable: by --device, by CDI, by privilege; and a node that is shared."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from cgpu.request.device_nodes import MAJOR
from tests.integration.commands import Outcome, message
from tests.integration.conftest import Start
from tests.integration.engine import MIB, Engine
from tests.integration.isolation.test_bypass import privileged
from tests.integration.probe import step
from tests.integration.runtimes import Docker, Runc
from tests.integration.test_slice import SIX

DEFAULT = 1 << 30
VOID = {"NVIDIA_VISIBLE_DEVICES": "void"}
INFO = ["/cgpu-probe", "info"]
SHARED = "a GPU without an amount, and this node has no default (shared_node: true"


def given(runc: Runc, *minors: int) -> dict[str, object]:
    """Return what an engine makes of a CDI device: nodes of cards, each with leave to open it."""
    spec: Any = runc.spec(["/cgpu-probe", f"gpu={minors[0]}", "info"], VOID)
    kind = {"type": "c", "major": MAJOR}
    spec["linux"]["devices"] = [{"path": f"/dev/nvidia{minor}", **kind, "minor": minor} for minor in minors]
    rules = spec["linux"]["resources"]["devices"]
    rules += [{"allow": True, **kind, "minor": minor, "access": "rw"} for minor in minors]
    found: dict[str, object] = spec
    return found


def run(runc: Runc, spec: dict[str, object]) -> Outcome:
    return runc.run_bundle(runc.bundle(spec), f"given{os.getpid()}-{runc.count}")


def total(outcome: Outcome) -> int:
    return step(outcome, "info").number("total")


@pytest.mark.enforcement
def test_docker_device(start: Start, docker: Docker, tmp_path: Path) -> None:
    """docker run --device with a card's node gets the node's default."""
    start("T4", default_memsize=DEFAULT)
    node = tmp_path / "nvidia0"
    os.mknod(node, 0o20666, os.makedev(MAJOR, 0))
    assert total(docker.run(INFO, VOID, "--device", f"{node}:/dev/nvidia0")) == DEFAULT


def test_a_mounted_node_cannot_be_opened(engine: Engine, docker: Docker, tmp_path: Path) -> None:
    """A card's node that is only mounted names no GPU: the device cgroup refuses to open it."""
    os.mknod(tmp_path / "nvidia0", 0o20666, os.makedev(MAJOR, 0))
    words = ["-v", f"{tmp_path}:/host", "-v", "/bin/busybox:/busybox:ro"]
    outcome = docker.run(["/busybox", "head", "-c1", "/host/nvidia0"], VOID, *words)
    assert "Operation not permitted" in outcome.text
    assert engine.instances() == []


@pytest.mark.enforcement
def test_a_privileged_container_names_every_gpu(start: Start, runc: Runc) -> None:
    """A privileged container that says nothing gets the default on every card, unless it is let alone."""
    engine = start("T4:2", default_memsize=DEFAULT)
    spec = privileged(runc, ["/cgpu-probe", "info", "gpu=1", "info"])
    spec["process"]["env"] = ["PATH=/"]  # type: ignore[index]
    outcome = run(runc, spec)
    assert [step(outcome, "info", gpu).number("total") for gpu in (0, 1)] == [DEFAULT, DEFAULT]
    engine.await_empty()
    start("T4:2", default_memsize=DEFAULT, allow_privileged=True)
    # Without a slice it has no node of a simulated card.
    assert run(runc, spec).returncode != 0


def test_shared_node_refuses_what_has_no_amount(start: Start, runc: Runc, docker: Docker) -> None:
    """On a shared node without a default no variable, node or right gives a whole GPU."""
    engine = start("T4", shared_node=True)
    for env in (
        {"NVIDIA_VISIBLE_DEVICES": "all"},
        {**SIX, "NVIDIA_VISIBLE_DEVICES": "all", "CGPU_DISABLE": "1"},
    ):
        assert f"NVIDIA_VISIBLE_DEVICES=all: {SHARED}" in docker.run(INFO, env).text
    assert f"device=/dev/nvidia0: {SHARED}" in message(run(runc, given(runc, 0)))
    wide = privileged(runc, INFO)
    wide["process"]["env"] = ["PATH=/"]  # type: ignore[index]
    assert f"device rule=all devices: {SHARED}" in message(run(runc, wide))
    assert engine.instances() == []


@pytest.mark.enforcement
def test_shared_node_gives_slices(start: Start, runc: Runc, docker: Docker) -> None:
    """On a shared node who says nothing has the default, an annotation gives its amount."""
    start("T4", shared_node=True, default_memsize=DEFAULT)
    assert total(docker.run(INFO, {**SIX, "CGPU_DISABLE": "1", "NVIDIA_VISIBLE_DEVICES": "all"})) == DEFAULT
    notes = {"opencgpu.io/mem-container": "6", "opencgpu.io/mem-dev": "15"}
    assert total(run(runc, {**runc.spec(INFO, {}), "annotations": notes})) == 6043 * MIB
    off = {**runc.spec(INFO, {}), "annotations": {**notes, "opencgpu.io/disable": "true"}}
    assert "slicing cannot be switched off on this node" in message(run(runc, off))
    assert docker.run(["/cgpu-probe", "--help"], {}).returncode == 0
