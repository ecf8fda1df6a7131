# SPDX-License-Identifier: Apache-2.0
"""Names of containers from engines that answer, fail, hang or talk nonsense."""

from __future__ import annotations

import json
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cgpu.runtime_config.engines import containerd, docker, podman
from cgpu.runtime_config.engines import engine as engine_module
from cgpu.smi import names
from tests.cards import card
from tests.exporter.trees import slice_line
from tests.integration.commands import eventually
from tests.runtime_config.oci_runtime.served import state
from tests.runtime_config.support import program

ROWS = [{"Id": "a" * 64, "Names": ["/trainer"]}, {"Id": "b" * 64, "Names": ["web", "alias"]}]
KNOWN = {"a" * 64: "trainer", "b" * 64: "web"}
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
CARD = card(slice_line("a" * 64))
BOTH = card(*(slice_line(letter * 64) for letter in "ab"))


class Engine(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    body: bytes = b""


class Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, Engine)
        while asked := self.rfile.readline():
            while self.rfile.readline().strip():
                pass
            version = b'{"ApiVersion": "1.45", "Version": "26.0"}'
            body = version if b"/version " in asked else self.server.body
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            self.wfile.write(head.encode() + body)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(str(tmp_path / "engine.sock"), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_socket(engine: Engine, tmp_path: Path) -> None:
    """An engine on a socket tells the names; one that talks nonsense gives none."""
    ask = partial(docker.running, tmp_path / "engine.sock")
    engine.body = json.dumps(ROWS).encode()
    assert names.ask(ask) == KNOWN
    for body in (b"", b"nonsense", b"{}", b"[1, null, {}]", b"\xff"):
        engine.body = body
        assert names.ask(ask) == {}, body


def test_nobody_is_there(tmp_path: Path) -> None:
    """Without an engine, or without a listener at its socket, there are no names."""
    (tmp_path / "engine.sock").touch()
    for source in (
        partial(docker.running, tmp_path / "none.sock"),
        partial(docker.running, tmp_path / "engine.sock"),
        partial(podman.running, tmp_path / "podman"),
        partial(containerd.named, tmp_path, containerd.STATE),
    ):
        assert names.ask(source) == {}


def test_silent_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that accepts and never answers is given up."""
    monkeypatch.setattr(docker, "AT_ONCE_S", 0.1)
    with Engine(str(tmp_path / "engine.sock"), Handler):
        assert names.ask(partial(docker.running, tmp_path / "engine.sock")) == {}


def test_podman(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Podman tells the names through its command; one that fails, hangs or talks nonsense gives none."""
    path = program(tmp_path / "podman", f'[ "$*" = "ps --format json" ] && echo \'{json.dumps(ROWS)}\'')
    assert names.ask(partial(podman.running, path)) == KNOWN
    monkeypatch.setattr(podman, "AT_ONCE_S", 0.5)
    for text in ("exit 1", "echo nonsense", "true", "echo null", "exec sleep 60"):
        assert names.ask(partial(podman.running, program(path, text))) == {}, text


def spec(root: Path, place: str, text: str) -> None:
    folder = root / place
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(text)


def test_pods_of_containerd(tmp_path: Path) -> None:
    """A pod's container has the name that containerd noted for its shim; docker names its own itself."""
    tasks = tmp_path / "run/containerd" / containerd.TASKS
    pod = {containerd.POD[0]: "research", containerd.POD[1]: "llama"}
    whole = json.dumps({"annotations": {**pod, containerd.CONTAINER: "trainer"}})
    spec(tasks, f"k8s.io/{'a' * 64}", whole)
    spec(tasks, f"k8s.io/{'b' * 64}", json.dumps({"annotations": pod}))
    spec(tasks, f"moby/{'d' * 64}", whole)
    for number, text in enumerate(("", "{", "[1]", '{"annotations": 7}', "[" * 100_000, "{}")):
        spec(tasks, f"default/{number}", text)
    long = dict.fromkeys((*containerd.POD, containerd.CONTAINER), "x" * 100_000)
    spec(tasks, f"k8s.io/{'e' * 64}", json.dumps({"annotations": long}))
    found = dict(names.ask(partial(containerd.named, tmp_path, containerd.STATE)))
    assert len(found.pop("e" * 64)) < 1000
    assert found == {"a" * 64: "research/llama/trainer"}


def test_pods_of_crio(tmp_path: Path) -> None:
    """crictl tells the labels by which the kubelet names a container; a row without them is passed over."""
    labels = dict(zip(engine_module.LABELS, ("research", "llama", "trainer"), strict=True))
    rows = {"containers": [{"id": "a" * 64, "labels": labels}, {"id": "b" * 64, "labels": {}}, {"id": 7}, 1]}
    path = program(tmp_path / "crictl", f'[ "$*" = "ps --output json" ] && echo \'{json.dumps(rows)}\'')
    ask = partial(engine_module.named_by_cri, [str(path)])
    assert names.ask(ask) == {"a" * 64: "research/llama/trainer"}
    for text in ("exit 1", "echo nonsense", "echo null", "echo '{\"containers\": 1}'"):
        program(path, text)
        assert names.ask(ask) == {}


def test_asks_once() -> None:
    """Engines are asked again only when an unknown container turns up, and only until all are named."""
    asked: list[str] = []

    def known() -> names.Names:
        asked.append("docker")
        return KNOWN

    def unknown() -> names.Names:
        asked.append("podman")
        return {}

    directory = names.Directory([known, unknown])
    for _ in range(2):
        assert directory.named((CARD,))[0].containers[0].name == "trainer"
    assert asked == ["docker"]


def test_a_container_that_stays_nameless() -> None:
    """An unknown name is asked for again, as its engine may have been slow."""
    now, asked = [0.0], []

    def answer() -> names.Names:
        asked.append(now[0])
        now[0] += 5
        return KNOWN if len(asked) == 4 else {}

    directory = names.Directory([answer], again_s=10, clock=lambda: now[0])
    while now[0] < 100:
        directory.named((CARD,))
        now[0] += 1
    assert asked == [0, 15, 30, 45]
    assert directory.named((CARD,))[0].containers[0].name == "trainer"


def test_an_engine_that_hangs() -> None:
    """A view of this moment waits for an engine once, and has the names when they are there."""
    go, asked = threading.Event(), threading.Semaphore(0)

    def answer() -> names.Names:
        asked.release()
        go.wait(20)
        return {"a" * 64: "trainer"}

    directory = names.Directory([answer], wait_s=0.05)
    for _ in range(5):
        assert directory.named((CARD,)) == (CARD,)
    assert asked.acquire(timeout=240)
    assert not asked.acquire(timeout=0.1)
    go.set()
    eventually(lambda: directory.named((CARD,))[0].containers[0].name == "trainer", "it has its name")
    assert not asked.acquire(timeout=0.1)


def test_a_container_that_starts_while_an_engine_hangs() -> None:
    """A container that starts meanwhile is asked for when the engine has answered for the others."""
    go = threading.Event()
    answers = iter([{"a" * 64: "trainer"}, KNOWN])

    def answer() -> names.Names:
        go.wait(20)
        return next(answers)

    directory = names.Directory([answer], wait_s=0.05)
    directory.named((CARD,))
    assert directory.named((BOTH,)) == (BOTH,)
    go.set()
    eventually(
        lambda: [one.name for one in directory.named((BOTH,))[0].containers] == ["trainer", "web"],
        "both have names",
    )


def test_what_is_known_by_then() -> None:
    """An engine that hangs does not withhold what another has said."""
    go = threading.Event()

    def hang() -> names.Names:
        go.wait(20)
        return {}

    directory = names.Directory([lambda: {"a" * 64: "trainer"}, hang], wait_s=3)
    assert [one.name for one in directory.named((BOTH,))[0].containers] == ["trainer", None]
    go.set()


def test_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a thread there are no names, and later there are."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    directory = names.Directory([lambda: KNOWN])
    with monkeypatch.context() as context:
        context.setattr(threading.Thread, "start", refuse)
        assert directory.named((CARD,)) == (CARD,)
    assert directory.named((CARD,))[0].containers[0].name == "trainer"


def test_a_program_that_hangs_is_ended(tmp_path: Path) -> None:
    """A program that ends while an engine's program hangs leaves nothing running."""
    path = program(tmp_path / "podman", f"echo $$ >{tmp_path}/pid; exec sleep 60")
    code = (
        "import sys; from functools import partial; from pathlib import Path\n"
        "from cgpu.runtime_config.engines import podman; from cgpu.smi import names\n"
        "source = partial(names.ask, partial(podman.running, Path(sys.argv[1])))\n"
        "names.Directory([source], wait_s=1.0).names({'a'})\n"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, timeout=60)
    pid = int((tmp_path / "pid").read_text())
    eventually(lambda: state(pid) == "Z", "the program has ended")


@given(
    st.recursive(st.none() | st.text() | st.integers(), lambda v: st.lists(v) | st.dictionaries(st.text(), v))
)
def test_any_list(rows: object) -> None:
    """Reading any answer of an engine does not fail."""
    assert isinstance(names.by_id(rows), dict)


def test_docker_host_is_asked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A local socket in DOCKER_HOST comes before the usual ones; a remote engine is not asked."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///somewhere/docker.sock")
    assert docker.sockets() == [Path("/somewhere/docker.sock"), *docker.SOCKETS]
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")
    assert docker.sockets() == list(docker.SOCKETS)
