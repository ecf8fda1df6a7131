# SPDX-License-Identifier: Apache-2.0
"""Use of a cluster's GPUs, with an API server whose nodes answer, refuse, or say nothing."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
import yaml
from lightkube.resources.core_v1 import Pod

from cgpu.errors import CgpuError
from cgpu.kubernetes.inspect import main, use
from cgpu.kubernetes.inspect.use import Agent, GpuUse, ShareUse
from cgpu.kubernetes.names import SCHEDULE_LABEL, SCHEDULER_LABEL
from cgpu.sizes import MIB
from tests.kubernetes.inspect.test_inspect import given, node, published

NAMES = ("a", "b")


def slice_of(used: int | None, *shares: str) -> dict[str, Any]:
    return {
        "container": "c",
        "limit": 1,
        "used": used,
        "shares": [{"share": one, "limit": 7, "claim": None} for one in shares],
    }


def figures(used: int | None, *slices: dict[str, Any], **more: Any) -> bytes:
    gpu = {"uuid": "GPU-0", "index": 1, "product": "Tesla T4", "total": 15109 * MIB, **more}
    gpu |= {"used": used, "slices": slices}
    return json.dumps({"version": 1, "node": "a", "gpus": [gpu]}).encode()


def agent_pod(
    name: str, on: str, *, ready: bool = True, port: str = "status", made: str = "1"
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "opencgpu",
            "creationTimestamp": f"2026-01-0{made}T00:00:00Z",
        },
        "spec": {
            "nodeName": on,
            "containers": [{"name": "node", "ports": [{"name": port, "containerPort": 8080}]}],
        },
        "status": {"conditions": [{"type": "Ready", "status": str(ready)}]},
    }


def as_pod(document: dict[str, Any]) -> Pod:
    return cast("Pod", Pod.from_dict(document))


def test_the_agent_of_a_node() -> None:
    """In an update the ready one is asked, of two that are ready the newer; pods of others are not agents."""
    pods = [
        agent_pod("old", "a"),
        agent_pod("new", "a", ready=False, made="2"),
        agent_pod("first", "b"),
        agent_pod("second", "b", made="2"),
        agent_pod("portless", "c", port="http"),
        agent_pod("far", "d"),
    ]
    found = use.agents(map(as_pod, pods), ["a", "b", "c"])
    assert [(one.node, one.path.split("/")[6]) for one in found] == [("a", "old:8080"), ("b", "second:8080")]
    assert found[0].path == "/api/v1/namespaces/opencgpu/pods/old:8080/proxy/v1/usage"


def test_figures_of_shares() -> None:
    """Merged shares have no figure of their own; containers beside Kubernetes have no shares."""
    body = figures(7, slice_of(3, "x"), slice_of(4, "y", "z"), slice_of(None, "w"), slice_of(0))
    shares = {"x": ShareUse(7, 3), "y": ShareUse(7, None), "z": ShareUse(7, None), "w": ShareUse(7, None)}
    assert use.parse(body) == {"gpu-0": GpuUse(7, shares, 1, "Tesla T4", 15109 * MIB)}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"version": 1, "gpus": 3}',
        b'{"version": 1, "gpus": [{}]}',
        b'{"version": 1, "gpus": [{"uuid": "a", "used": Infinity, "slices": []}]}',
    ],
)
def test_figures_that_are_none(body: bytes) -> None:
    """Any other answer of a pod is a reason, and no fault."""
    with pytest.raises(CgpuError, match="not of version 1"):
        use.parse(body)
    with pytest.raises(CgpuError, match="version 2 of its figures, expected 1"):
        use.parse(b'{"version": 2}')


def test_nobody_waits_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that hang cost the others nothing, and all together no more than the time for all."""
    monkeypatch.setattr(use, "ALL_S", 5.0)
    release = threading.Event()

    def ask(path: str) -> bytes:
        if path == "hangs":
            release.wait(30)
        if path == "refuses":
            raise httpx2.ConnectTimeout("")
        return figures(5)

    agents = [Agent(f"n{number:03}", "hangs" if number % 40 == 0 else "works") for number in range(400)]
    began = time.monotonic()
    found, silent = use.collect([*agents, Agent("z", "refuses")], ask)
    release.set()
    assert time.monotonic() - began < 25
    assert len(found) == 390
    assert silent == {
        **{f"n{number:03}": "no answer in time" for number in range(0, 400, 40)},
        "z": "ConnectTimeout",
    }
    assert use.missing(silent) == (
        "what is used is not known of n000 (no answer in time), n040 (no answer in time), "
        "n080 (no answer in time) and 8 more"
    )


# With an API server


class Server(ThreadingHTTPServer):
    """An API server with two nodes and their agents. proxy: answers for the agent of a node."""

    daemon_threads = True
    proxy: dict[str, Callable[[Handler], None]]
    objects: dict[str, list[Any]]
    denied: str = ""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if self.server.denied and self.server.denied in path:
            self.answer(403, b'{"kind": "Status", "message": "pods is forbidden", "code": 403}')
        elif "/proxy/" in path:
            assert path.endswith("/proxy/v1/usage")
            self.server.proxy[path.split("/")[-4].partition(":")[0].removeprefix("agent-")](self)
        else:
            items = self.server.objects[path.rpartition("/")[2]]
            self.answer(200, json.dumps({"metadata": {}, "items": items}).encode())

    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as found:
        found.objects = {
            "resourceslices": [published(name, ["15Gi"]).to_dict() for name in NAMES],
            "resourceclaims": [given("p", "3Gi", pool="a").to_dict()],
            "nodes": [node(name, "10.0.0.1").to_dict() for name in NAMES],
            "pods": [agent_pod(f"agent-{name}", name) for name in NAMES],
        }
        body = figures(1536 * MIB, slice_of(1536 * MIB, "share-of-p")).replace(b"GPU-0", b"gpu-0")
        found.proxy = {"a": lambda one: one.answer(200, body), "b": lambda one: one.answer(200, figures(1))}
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.shutdown()


@pytest.fixture
def inspected(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[list[list[str]], str]]:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_address[1]}"}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (tmp_path / "config").write_text(yaml.safe_dump(config))

    def run(*words: str) -> tuple[list[list[str]], str]:
        assert main.main([*words, "--kubeconfig", str(tmp_path / "config")]) == 0
        said = capsys.readouterr()
        return [line.split() for line in said.out.splitlines()], said.err

    return run


Inspected = Callable[..., tuple[list[list[str]], str]]


def test_wide(inspected: Inspected) -> None:
    """Beside what is allocated stands what is used: 1 byte is something, and not 0."""
    lines, said = inspected("-o", "wide")
    assert lines[0][3:-1] == ["GPU0(Used)", "GPU", "Memory(GiB)", "Used(GiB)", "PRODUCT", "TAINTS"]
    assert lines[1][:6] == ["a", "10.0.0.1", "3/15", "1.5", "3/15", "1.5"]
    assert lines[2][:6] == ["b", "10.0.0.1", "0/15", "0.1", "0/15", "0.1"]
    assert said == ""


def test_without_wide_nobody_is_asked(server: Server, inspected: Inspected) -> None:
    """The short table is of the API server's objects alone."""
    server.denied = "pods"
    lines, said = inspected()
    assert (lines[1][:3], said) == (["a", "10.0.0.1", "3/15"], "")


def hang(one: Handler) -> None:
    one.connection.recv(1)  # until the client gives up
    one.close_connection = True


def trickle(one: Handler) -> None:
    one.send_response(200)
    one.end_headers()
    with contextlib.suppress(ConnectionError):
        while True:
            one.wfile.write(b" ")
            time.sleep(0.1)


@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        (hang, "timed out"),
        (trickle, "the answer does not end"),
        (lambda one: one.answer(200, b"<html>"), "not of version 1"),
        (lambda one: one.answer(503, b"the engine is not running"), "status 503: the engine is not running"),
        (lambda one: one.answer(403, b'{"message": "pods/proxy is forbidden"}'), "pods/proxy is forbidden"),
        (lambda one: one.answer(200, b" " * (use.MAX_BYTES + 1)), "the answer does not end"),
    ],
)
def test_an_agent_that_does_not_answer(
    server: Server, inspected: Inspected, agent: Callable[[Handler], None], reason: str
) -> None:
    """Its use is ?, one line says why, and the other node is shown."""
    server.proxy["b"] = agent
    lines, said = inspected("-o", "wide")
    assert (lines[1][3], lines[2][3], lines[2][5]) == ("1.5", "?", "?")
    assert said.startswith("cgpu kubernetes inspect: what is used is not known of b (")
    assert reason in said
    assert said.count("\n") == 1


def test_nobody_may_list_pods(server: Server, inspected: Inspected) -> None:
    """Without the right all uses are ?, and allocations are shown."""
    server.denied = "/pods"
    lines, said = inspected("-o", "wide")
    assert (lines[1][2:4], lines[2][3]) == (["3/15", "?"], "?")
    assert "a (pods is forbidden), b (pods is forbidden)" in said


def test_a_node_without_an_agents_pod(server: Server, inspected: Inspected) -> None:
    """The line says where a pod was looked for."""
    del server.objects["pods"][1]
    lines, said = inspected("-o", "wide")
    assert lines[2][3] == "?"
    assert "b (namespace opencgpu has no pod of its agent with a port status)" in said


def decided_by_hami(server: Server, name: str) -> None:
    """Have HAMi's scheduler decide for a node: it publishes nothing, and its agent knows what was decided."""
    server.objects["resourceslices"] = [
        one for one in server.objects["resourceslices"] if one["metadata"]["name"] != name
    ]
    labelled = next(one for one in server.objects["nodes"] if one["metadata"]["name"] == name)
    labelled["metadata"]["labels"] = {SCHEDULER_LABEL: "hami"}
    slices = []
    for pod, mib in (("theirs", 3000), ("waits", 1000)):
        one = slice_of(mib * MIB, f"share-of-{pod}")
        owner = {"namespace": "team", "name": pod, "uid": "u", "kind": "pod"}
        one["shares"][0] |= {"limit": mib * MIB, "claim": owner}
        slices.append(one)
    body = figures(3000 * MIB, *slices, index=0)
    server.proxy[name] = lambda one: one.answer(200, body)


def test_where_another_scheduler_decides(server: Server, inspected: Inspected) -> None:
    """Such a node is shown by its agent's word, without -o wide, too; an agent that is silent is named."""
    decided_by_hami(server, "b")
    lines, said = inspected()
    assert [line[:4] for line in lines[1:3]] == [
        ["a", "10.0.0.1", "3072/15360", "3072/15360"],
        ["b", "10.0.0.1", "4000/15109", "4000/15109"],
    ]
    assert (lines[-1], said) == (["7072/30469", "(23%)"], "")
    lines, _ = inspected("-d", "b")
    assert lines[:3] == [["NAME:", "b"], ["IPADDRESS:", "10.0.0.1"], ["MODE:", "hami"]]
    assert [line for line in lines if line[1:2] == ["team"]] == [
        ["theirs", "team", "3000"],
        ["waits", "team", "1000"],
    ]
    lines, _ = inspected("-o", "wide")
    assert (lines[1][-1], lines[2][-1], lines[2][3]) == ("cgpu", "hami", "3000")
    server.objects["nodes"][0]["metadata"]["labels"] = {SCHEDULE_LABEL: "share"}
    assert inspected("-o", "wide")[0][1][-1] == "share"
    assert ["MODE:", "share", "(counted,", "not", "enforced)"] in inspected("-d", "a")[0]
    server.proxy["b"] = lambda one: one.answer(503, b"the engine is not running")
    lines, said = inspected()
    assert lines[2][:4] == ["b", "10.0.0.1", "0/0", "0/0"]
    assert "b (status 503: the engine is not running)" in said
