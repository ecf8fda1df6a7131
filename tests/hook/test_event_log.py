# SPDX-License-Identifier: Apache-2.0
"""Events of the hook; a container starts whether or not there is an event log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.client.support import CONTAINER, MIB
from tests.hook.support import FakeTree
from tests.request.support import ENV, spec

BY_CONTAINERD = {
    "io.kubernetes.cri.sandbox-name": "web-0",
    "io.kubernetes.cri.sandbox-namespace": "shop",
    "io.kubernetes.cri.container-name": "main",
}
BY_CRIO = {
    "io.kubernetes.pod.name": "web-0",
    "io.kubernetes.pod.namespace": "shop",
    "io.kubernetes.container.name": "main",
}
ASKING = {**ENV, "NVIDIA_VISIBLE_DEVICES": "0"}
NAMES = {"pod": "web-0", "namespace": "shop", "container": "main"}


class Docker:
    """The files of docker that say what it calls a container."""

    def __init__(self, tree: FakeTree) -> None:
        self.file = tree.base / "docker" / "containers" / CONTAINER / "config.v2.json"
        self.file.parent.mkdir(parents=True)
        self.bundle = tree.base / "moby" / CONTAINER
        self.bundle.mkdir(parents=True)
        mounts = [{"destination": "/proc"}, {"source": str(self.file.with_name("hostname"))}]
        self.ask(mounts)
        self.state = tree.state(bundle=str(self.bundle))

    def ask(self, mounts: object) -> None:
        """Have the bundle ask for a slice, with these mounts."""
        (self.bundle / "config.json").write_text(json.dumps(spec(ASKING, mounts=mounts)))

    def write(self, document: object) -> None:
        self.file.write_text(document if isinstance(document, str) else json.dumps(document))


def written(tree: FakeTree) -> list[dict[str, Any]]:
    """Return the events of the log, without their times."""
    if not tree.events.exists():
        return []
    documents = [json.loads(line) for line in tree.events.read_text().splitlines()]
    return [{key: value for key, value in one.items() if key != "time"} for one in documents]


def test_refused_by_the_engine(tree: FakeTree) -> None:
    """A container that the engine refuses is an event for each GPU, with what the runtime shows.

    The wrapper has written its name.
    """
    tree.inst_ctl.unlink()
    tree.inst_ctl.symlink_to("/dev/full")
    state = tree.state(annotations=BY_CONTAINERD)
    result = tree.run(*tree.given(f"gpu=0:{MIB}:2:1 gpu=1:{MIB}:1:0"), state=state)
    why = f"container {CONTAINER}: the engine at {tree.path} refused: No space left on device"
    assert (result.status, result.errors) == (1, f"opencgpu: {why}\n")
    refused = {"event": "refused", "id": CONTAINER, "message": why, "memsize": MIB}
    assert written(tree) == [
        {**refused, "gpu": 0, "weight": 2, "highprio": 1},
        {**refused, "gpu": 1, "weight": 1, "highprio": 0},
    ]
    tree.events.unlink()
    assert tree.run(*tree.given("share=x"), state=state).status == 1
    assert written(tree) == [{"event": "refused", "id": CONTAINER, "message": why}]


@pytest.mark.parametrize("annotations", [BY_CONTAINERD, BY_CRIO])
def test_refused_request(tree: FakeTree, annotations: dict[str, str]) -> None:
    """A request that cannot be read is one event, with its pod's names and the whole message."""
    tree.bundle(spec({**ENV, "ALIYUN_COM_GPU_MEM_DEV": "much"}))
    result = tree.run("createRuntime", state=tree.state(annotations=annotations))
    message = result.errors.removeprefix("opencgpu: ").removesuffix("\n")
    assert "ALIYUN_COM_GPU_MEM_DEV=much" in message
    assert written(tree) == [{"event": "refused", "id": CONTAINER, **NAMES, "message": message}]


@pytest.mark.parametrize("annotations", [BY_CONTAINERD, BY_CRIO])
def test_names_of_pods(tree: FakeTree, annotations: dict[str, str]) -> None:
    """The name of a pod's container is written when it has its slice. The engine writes the rest.

    The wrapper has written the name where it has written the line.
    """
    state = tree.state(annotations=annotations)
    assert tree.run(*tree.given(), state=state).status == 0
    assert written(tree) == []
    tree.bundle(spec(ASKING))
    assert tree.run("prestart", state=state).status == 0
    assert tree.run("poststop", state=state).status == 0
    assert written(tree) == [{"event": "named", "id": CONTAINER, **NAMES}]


@pytest.fixture
def docker(tree: FakeTree) -> Docker:
    """Have docker's folder of a container, and its bundle; the container is called web."""
    made = Docker(tree)
    made.write({"ID": CONTAINER, "Name": "/web"})
    return made


HOSTILE: list[object] = ["{", [], {}, {"ID": "other", "Name": "/web"}]
HOSTILE += [{"ID": CONTAINER, "Name": 5}, {"ID": CONTAINER, "Name": ""}]


def assert_nameless(tree: FakeTree, state: str) -> None:
    """Expect that the container starts and nothing is written of its name."""
    assert tree.run("prestart", state=state).status == 0
    assert written(tree) == []


@pytest.mark.parametrize("document", HOSTILE)
def test_no_name_by_docker(tree: FakeTree, docker: Docker, document: object) -> None:
    """A file that is not as docker writes it has no name, and the container starts as without it."""
    docker.write(document)
    assert_nameless(tree, docker.state)


@pytest.mark.parametrize("way", ["linked", "no file", "no mount", "another engine"])
def test_no_file_of_docker(tree: FakeTree, docker: Docker, way: str) -> None:
    """Without docker's file, or with a link in its place, there is no name."""
    state = docker.state
    if way == "linked":
        docker.file.rename(tree.base / "other")
        docker.file.symlink_to(tree.base / "other")
    elif way == "no file":
        docker.file.unlink()
    elif way == "no mount":
        docker.ask([])
    else:
        place = docker.bundle.rename(tree.base / "web")
        state = tree.state(bundle=str(place))
    assert_nameless(tree, state)


@pytest.mark.parametrize("annotations", [None, {}, {"io.container.manager": "libpod"}, "none", ["a"]])
def test_no_names(tree: FakeTree, annotations: object) -> None:
    """Other containers, and annotations that are none, write nothing and are refused for nothing."""
    tree.bundle(spec(ASKING))
    assert_nameless(tree, tree.state(annotations=annotations))


def test_hostile_names(tree: FakeTree) -> None:
    """A name of any kind is one field of one line."""
    hostile = {**BY_CONTAINERD, "io.kubernetes.cri.sandbox-name": 'a", "event": "ended"}\n{\x1b[2J'}
    hostile["io.kubernetes.cri.container-name"] = 5  # type: ignore[assignment]
    tree.bundle(spec(ASKING))
    assert tree.run("prestart", state=tree.state(annotations=hostile)).status == 0
    name = hostile["io.kubernetes.cri.sandbox-name"]
    assert written(tree) == [{"event": "named", "id": CONTAINER, "pod": name, "namespace": "shop"}]
