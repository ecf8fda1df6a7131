# SPDX-License-Identifier: Apache-2.0
"""An image's own annotations, through engines that copy them into the specification and others."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.integration.commands import eventually, message, must
from tests.integration.conftest import Start
from tests.integration.engine import RUN, Engine
from tests.integration.images import image_tar, oci_layout
from tests.integration.probe import step
from tests.integration.runtimes import Containerd, Docker, Podman, Runc, crun_here
from tests.integration.test_slice import LIMIT, SIX, SLICE

SANDBOX = {"io.kubernetes.cri.container-type": "sandbox"}
WHOLE = {"opencgpu.io/mem-container": "15", "opencgpu.io/mem-dev": "15"}
#: what an image can write to look as if another engine had made the specification (podman 4.3.1 keeps it)
FORGED = {
    "io.container.manager": "cri-o",
    "io.kubernetes.cri-o.MountPoint": "/var/lib/containers/storage/overlay/x/merged",
    "io.podman.annotations.autoremove": "x",
}
INFO = ["/cgpu-probe", "info"]
#: the operator's own, for podman
NOTES = ("--annotation", "opencgpu.io/mem-container=6", "--annotation", "opencgpu.io/mem-dev=15")
LOG = RUN / "cgpud.log"
VENDOR = {"NVIDIA_VISIBLE_DEVICES": "all"}
Load = Callable[[Mapping[str, str]], str]


@pytest.fixture(scope="module")
def load(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Load]:
    """Give podman an image whose manifest has annotations; return its id."""
    loaded: dict[str, str] = {}
    layer = image_tar(tmp_path_factory.mktemp("layer"))

    def put(annotations: Mapping[str, str]) -> str:
        words = json.dumps(annotations, sort_keys=True)
        if words not in loaded:
            layout = oci_layout(layer, tmp_path_factory.mktemp("image"), annotations)
            pull = [*podman.base, "pull", "-q", f"oci:{layout}:latest"]
            loaded[words] = must(pull, timeout=120).stdout.strip()
        return loaded[words]

    yield put
    for image in loaded.values():
        podman.call("rmi", "-f", image)


def test_an_image_does_not_beat_the_operator(engine: Engine, podman: Podman, load: Load) -> None:
    """An image says nothing of its container: an amount in its manifest is refused beside a variable.

    One that says it is a pod's is held for a pod's, which asks by no variables here. Annotations of the
    operator's own count as an environment does.
    """
    outcome = podman.run(INFO, SIX, image=load({**WHOLE, **FORGED}))
    assert "annotation opencgpu.io/mem-container=15: it may come from the image" in message(outcome)
    line = message(podman.run(INFO, SLICE, image=load(SANDBOX)))
    assert "variables and annotations of a pod ask for no GPU on this node" in line
    assert engine.instances() == []
    assert step(podman.run(INFO, {}, *NOTES), "info").number("total") == LIMIT


@pytest.mark.enforcement
def test_an_image_that_says_it_is_a_sandbox_is_sliced(start: Start, podman: Podman, load: Load) -> None:
    """A sandbox's annotation, which podman copies from the image, takes nothing from the operator.

    Where slicing cannot be switched off, one that names a GPU without an amount does not start.
    """
    start("T4", pod_variables=True)
    outcome = podman.run(INFO, SLICE, image=load(SANDBOX))
    assert step(outcome, "info").number("total") == LIMIT
    start("T4", allow_disable=False, pod_variables=True)
    line = message(podman.run(INFO, VENDOR, image=load(SANDBOX)))
    assert "NVIDIA_VISIBLE_DEVICES=all: a pod's sandbox is not sliced, and slicing cannot be" in line


def test_docker_takes_no_annotation_from_an_image(engine: Engine, docker: Docker, tmp_path: Path) -> None:
    """docker copies nothing of an image's configuration into annotations: the operator's variables count."""
    words = {**WHOLE, **SANDBOX}
    outcome = docker.run_image(tmp_path, INFO, SIX, Labels=words, Annotations=words)
    assert step(outcome, "info").number("total") == LIMIT


def test_containerd_takes_no_annotation_from_an_image(
    engine: Engine, containerd: Containerd, tmp_path: Path
) -> None:
    """containerd copies none of an image's manifest and labels either."""
    layout = oci_layout(image_tar(tmp_path), tmp_path, {**WHOLE, **SANDBOX})
    tar = tmp_path / "noted.tar"
    must(["tar", "-C", layout, "-cf", tar, "."])
    must([*containerd.base, "image", "import", "--snapshotter", "native", tar], timeout=120)
    outcome = containerd.run(INFO, SLICE, image="noted:latest")
    assert step(outcome, "info").number("total") == LIMIT


def allow_all() -> str:
    """Return a seccomp filter that allows every call, as run.oci.seccomp_bpf_data has it."""
    ret_allow = struct.pack("=HBBI", 0x06, 0, 0, 0x7FFF0000)
    return base64.b64encode(ret_allow).decode()


LEAVING_OUT = """#!/usr/bin/python3 -IS
import json, os, sys
bundle = sys.argv[sys.argv.index("--bundle") + 1] if "--bundle" in sys.argv else None
if bundle is not None:
    with open(f"{bundle}/config.json") as file:
        spec = json.load(file)
    spec.setdefault("annotations", {})["run.oci.seccomp_bpf_data"] = "%s"
    with open(f"{bundle}/config.json", "w") as file:
        json.dump(spec, file)
os.execv("%s", sys.argv)
"""


def test_the_first_process_has_the_filter(start: Start, runc: Runc, tmp_path: Path) -> None:
    """cgpud ends a container whose low-level runtime has put another filter there, and says so."""
    crun = crun_here(tmp_path)
    runtime = tmp_path / "leaving-out"
    runtime.write_text(LEAVING_OUT % (allow_all(), crun))
    runtime.chmod(0o755)
    engine = start("T4", low_level_runtime=str(runtime))
    before = log_size()
    runc.start("filtered", ["/cgpu-probe", "info", "hold=1000"], SLICE)
    eventually(lambda: "filtered: its first process does not have the engine's filter" in log(before), "said")
    engine.await_empty()


def log_size() -> int:
    return LOG.stat().st_size if LOG.exists() else 0


def log(after: int) -> str:
    return LOG.read_bytes()[after:].decode(errors="replace") if LOG.exists() else ""


@pytest.mark.enforcement
def test_annotations_that_change_the_runtime_are_refused(
    start: Start, podman: Podman, runc: Runc, load: Load, tmp_path: Path
) -> None:
    """An annotation that makes crun drop the filter, or run another program, is refused; others are not."""
    crun = start("T4", low_level_runtime=str(crun_here(tmp_path)))
    notes = {
        "run.oci.seccomp_bpf_data": allow_all(),
        "run.oci.handler": "wasm",
        "module.wasm.image/variant": "compat",
    }
    outcome = podman.run(INFO, SLICE, image=load(dict([next(iter(notes.items()))])))
    assert "annotation run.oci.seccomp_bpf_data=" in message(outcome)
    for name, value in notes.items():
        spec = {**runc.spec(INFO, SLICE), "annotations": {name: value}}
        line = message(runc.run_bundle(runc.bundle(spec), "harmful"))
        assert f"annotation {name}=" in line
    assert crun.instances() == []
    before = log_size()
    spec = {**runc.spec(INFO, SLICE), "annotations": {"run.oci.keep_original_groups": "1"}}
    outcome = runc.run_bundle(runc.bundle(spec), "harmless")
    assert step(outcome, "info").number("total") == LIMIT
    assert "harmless: listener attached" in log(before)
    assert "cannot be looked at" not in log(before)
