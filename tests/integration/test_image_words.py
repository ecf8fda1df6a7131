# SPDX-License-Identifier: Apache-2.0
"""An image's own annotations, through engines that copy them into the specification and others."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.integration.commands import eventually, must
from tests.integration.conftest import Start
from tests.integration.engine import RUN, Engine
from tests.integration.images import image_tar, oci_archive, oci_layout
from tests.integration.isolation.test_refusals import message
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
LOG = RUN / "cgpud.log"
VENDOR = {"NVIDIA_VISIBLE_DEVICES": "all"}
Load = Callable[[Mapping[str, str]], str]


@pytest.fixture
def load(podman: Podman, tmp_path: Path) -> Iterator[Load]:
    """Give podman an image whose manifest has annotations; return its id."""
    loaded: list[str] = []

    def put(annotations: Mapping[str, str]) -> str:
        place = tmp_path / f"image{len(loaded)}"
        place.mkdir()
        layout = oci_layout(image_tar(place), place, annotations)
        image = must([*podman.base, "pull", "-q", f"oci:{layout}:latest"], timeout=120).stdout.strip()
        loaded.append(image)
        return image

    yield put
    for image in loaded:
        podman.call("rmi", "-f", image)


@pytest.mark.enforcement
def test_an_image_that_says_it_is_a_sandbox_is_sliced(start: Start, podman: Podman, load: Load) -> None:
    """A sandbox's annotation, which podman copies from the image, takes nothing from the operator."""
    start("T4", pod_variables=True)
    outcome = podman.run(INFO, SLICE, image=load(SANDBOX))
    assert step(outcome, "info").number("total") == LIMIT


def test_an_image_that_says_it_is_a_pods_is_refused(engine: Engine, podman: Podman, load: Load) -> None:
    """Where pods ask by no variables, an image with containerd's annotations is held for a pod's."""
    line = message(podman.run(INFO, SLICE, image=load(SANDBOX)))
    assert "variables and annotations of a pod ask for no GPU on this node" in line
    assert engine.instances() == []


def test_a_sandbox_that_names_a_gpu_is_refused(start: Start, podman: Podman, load: Load) -> None:
    """Where slicing cannot be switched off, a sandbox that names a GPU does not start."""
    start("T4", allow_disable=False, pod_variables=True)
    line = message(podman.run(INFO, VENDOR, image=load(SANDBOX)))
    assert "NVIDIA_VISIBLE_DEVICES=all: a pod's sandbox is not sliced, and slicing cannot be" in line


@pytest.mark.parametrize("forged", [{}, FORGED], ids=["plain", "forged"])
def test_an_image_does_not_beat_the_operator(
    engine: Engine, podman: Podman, load: Load, forged: dict[str, str]
) -> None:
    """An amount in the image's manifest is refused beside the operator's variable, whatever it forges."""
    outcome = podman.run(INFO, SIX, image=load({**WHOLE, **forged}))
    assert "annotation opencgpu.io/mem-container=15: it may come from the image" in message(outcome)
    assert engine.instances() == []


def test_an_image_is_no_annotation_where_the_environment_is_off(
    start: Start, podman: Podman, load: Load
) -> None:
    """With allow_environment: false an annotation that may be the image's is refused too."""
    start("T4", allow_environment=False)
    outcome = podman.run(INFO, VENDOR, image=load(WHOLE))
    assert "annotation opencgpu.io/mem-container=15: it may come from the image" in message(outcome)


@pytest.mark.parametrize(
    "config",
    [{}, {"allow_environment": False, "trust_annotations": "always"}],
    ids=["as an environment", "always trusted"],
)
def test_podman_annotations_alone_count(start: Start, podman: Podman, config: dict[str, object]) -> None:
    """Annotations under podman count as an environment does, and without it where they are trusted always."""
    start("T4", **config)
    notes = ("opencgpu.io/mem-container=6", "opencgpu.io/mem-dev=15")
    outcome = podman.run(INFO, {}, *(word for note in notes for word in ("--annotation", note)))
    assert step(outcome, "info").number("total") == LIMIT


def test_docker_takes_no_annotation_from_an_image(engine: Engine, docker: Docker, tmp_path: Path) -> None:
    """docker copies nothing of an image's configuration into annotations: the operator's variables count."""
    words = {**WHOLE, **SANDBOX}
    archive = oci_archive(image_tar(tmp_path), tmp_path, INFO, Labels=words, Annotations=words)
    loaded = must(["docker", "-H", docker.socket, "load", "-i", archive], timeout=120).stdout
    image = loaded.rpartition(": ")[2].strip()
    try:
        outcome = docker.run(INFO, SIX, image=image)
    finally:
        # It has the name of the other tests' image.
        docker.call("import", str(tmp_path / "image.tar"), image)
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


@pytest.fixture
def crun(start: Start, tmp_path: Path) -> Engine:
    """Return an engine below whose wrapper crun comes."""
    return start("T4", low_level_runtime=str(crun_here(tmp_path)))


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


@pytest.mark.parametrize("leaves_out", [False, True])
def test_the_first_process_has_the_filter(
    start: Start, runc: Runc, tmp_path: Path, *, leaves_out: bool
) -> None:
    """Where the low-level runtime has put another filter there, cgpud ends the container and says so."""
    runtime = crun_here(tmp_path)
    if leaves_out:
        runtime = tmp_path / "leaving-out"
        runtime.write_text(LEAVING_OUT % (allow_all(), tmp_path / "crun"))
        runtime.chmod(0o755)
    engine = start("T4", low_level_runtime=str(runtime))
    before = log_size()
    runc.start("filtered", ["/cgpu-probe", "info", "hold=60"], SLICE)
    if leaves_out:
        eventually(
            lambda: "filtered: its first process does not have the engine's filter" in log(before), "said"
        )
        engine.await_empty()
    else:
        eventually(lambda: "filtered: listener attached" in log(before), "attached")
        assert "cannot be looked at" not in log(before)
        assert engine.instances() == ["filtered"]


def log_size() -> int:
    return LOG.stat().st_size if LOG.exists() else 0


def log(after: int) -> str:
    """Return the engine's log from there on."""
    return LOG.read_bytes()[after:].decode(errors="replace") if LOG.exists() else ""


@pytest.mark.parametrize(
    "note",
    [f"run.oci.seccomp_bpf_data={allow_all()}", "run.oci.handler=wasm", "module.wasm.image/variant=compat"],
)
def test_annotations_that_change_the_runtime_are_refused(
    crun: Engine, podman: Podman, load: Load, note: str
) -> None:
    """What makes crun leave out the filter, or run another program, is refused in a slice."""
    name, _, value = note.partition("=")
    outcome = podman.run(INFO, SLICE, image=load({name: value}))
    assert f"annotation {name}=" in message(outcome)
    assert crun.instances() == []


@pytest.mark.enforcement
def test_an_annotation_that_changes_no_filter_passes(crun: Engine, runc: Runc) -> None:
    """Annotations of crun that leave filter and program alone are not refused."""
    spec = {**runc.spec(INFO, SLICE), "annotations": {"run.oci.keep_original_groups": "1"}}
    outcome = runc.run_bundle(runc.bundle(spec), "harmless")
    assert step(outcome, "info").number("total") == LIMIT
