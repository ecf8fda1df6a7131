# SPDX-License-Identifier: Apache-2.0
"""Current use of a cluster's GPUs, asked of the nodes' agents through the API server.

An agent that does not answer delays no other: all are asked at the same time, and for a bounded time.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

import httpx2
from lightkube.resources.core_v1 import Pod

from cgpu.errors import CgpuError, one_line, show, some
from cgpu.kubernetes.names import STATUS_PORT, USAGE_PAGE, USAGE_VERSION

AT_ONCE = 32
CALL_S = 3.0
ALL_S = 15.0  # for all nodes together, however many there are
MAX_BYTES = 1 << 20
NAMED = 3  # in the line about those that did not answer


@dataclass(frozen=True, slots=True)
class Agent:
    """Address of a node's agent: path of its page below the API server."""

    node: str
    path: str


@dataclass(frozen=True, slots=True)
class ShareUse:
    """Bytes of the card that a share has, and that are used of it; None where it is merged with others.

    namespace, name: of its claim or pod, "" where the node has no record of it.
    """

    limit: int
    used: int | None
    namespace: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class GpuUse:
    """Bytes that a GPU's slices use. shares: by id; total: bytes of the card."""

    used: int | None
    shares: Mapping[str, ShareUse]
    index: int = 0
    product: str = ""
    total: int = 0


# By node, then by the GPU's device.
Use = Mapping[str, Mapping[str, GpuUse]]
Ask = Callable[[str], bytes]
# An agent's figures, or why it has given none.
Answer = Mapping[str, GpuUse] | str


def agents(pods: Iterable[Pod], nodes: Iterable[str]) -> list[Agent]:
    """Return the agents of some nodes, of several on one node the newest that is ready."""
    wanted = set(nodes)
    found: dict[str, tuple[tuple[bool, str], Agent]] = {}
    for pod in pods:
        port = _port(pod)
        node = pod.spec.nodeName if pod.spec is not None else None
        if port is None or node not in wanted or pod.metadata is None:
            continue
        path = (
            f"/api/v1/namespaces/{pod.metadata.namespace}/pods/{pod.metadata.name}:{port}/proxy{USAGE_PAGE}"
        )
        rank = (_is_ready(pod), str(pod.metadata.creationTimestamp))
        if node not in found or rank > found[node][0]:
            found[node] = (rank, Agent(node, path))
    return [found[node][1] for node in sorted(found)]


def collect(asked: Sequence[Agent], ask: Ask) -> tuple[Use, dict[str, str]]:
    """Ask all agents; return what they said, and a reason for each node that has said nothing."""
    answers: SimpleQueue[tuple[str, Answer]] = SimpleQueue()
    left: SimpleQueue[Agent] = SimpleQueue()
    for agent in asked:
        left.put(agent)
    for _ in range(min(AT_ONCE, len(asked))):
        # Not a pool, whose threads the interpreter waits for at its end.
        threading.Thread(target=_work, args=(left, answers, ask), daemon=True).start()
    use: dict[str, Mapping[str, GpuUse]] = {}
    silent: dict[str, str] = {}
    pending = {agent.node for agent in asked}
    end = time.monotonic() + ALL_S
    while pending and (rest := end - time.monotonic()) > 0:
        try:
            node, answer = answers.get(timeout=rest)
        except Empty:
            break
        pending.discard(node)
        if isinstance(answer, str):
            silent[node] = answer
        else:
            use[node] = answer
    return use, {**silent, **dict.fromkeys(pending, "no answer in time")}


def _work(left: SimpleQueue[Agent], answers: SimpleQueue[tuple[str, Answer]], ask: Ask) -> None:
    while True:
        try:
            agent = left.get_nowait()
        except Empty:
            return
        try:
            answers.put((agent.node, parse(ask(agent.path))))
        except (CgpuError, httpx2.HTTPError) as error:
            answers.put((agent.node, one_line(str(error)) or type(error).__name__))


def asking(client: httpx2.Client) -> Ask:
    """Return a reader of pages below the API server, which raises CgpuError and httpx2.HTTPError."""

    def ask(path: str) -> bytes:
        end = time.monotonic() + CALL_S
        body = b""
        with client.stream("GET", path, timeout=CALL_S) as response:
            for part in response.iter_bytes():
                body += part
                if time.monotonic() > end or len(body) > MAX_BYTES:
                    raise CgpuError("the answer does not end")
        if response.status_code != httpx2.codes.OK:
            raise CgpuError(f"status {response.status_code}: {_reason(body)}")
        return body

    return ask


def parse(body: bytes) -> Mapping[str, GpuUse]:
    """Read what an agent says, by device. Raises CgpuError."""
    try:
        whole = json.loads(body)
        if whole["version"] != USAGE_VERSION:
            raise CgpuError(f"version {show(whole['version'])} of its figures, expected {USAGE_VERSION}")
        return {str(gpu["uuid"]).lower(): _gpu(gpu) for gpu in whole["gpus"]}
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise CgpuError(f"its figures are not of version {USAGE_VERSION} ({type(error).__name__})") from error


def _gpu(gpu: Mapping[str, Any]) -> GpuUse:
    shares = dict(_shares(gpu["slices"]))
    return GpuUse(_size(gpu["used"]), shares, int(gpu["index"]), str(gpu["product"]), int(gpu["total"]))


def _shares(slices: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, ShareUse]]:
    for one in slices:
        used = _size(one["used"]) if len(one["shares"]) == 1 else None
        for share in one["shares"]:
            owner = share["claim"] or {"namespace": "", "name": ""}
            names = str(owner["namespace"]), str(owner["name"])
            yield str(share["share"]), ShareUse(int(share["limit"]), used, *names)


def _size(value: Any) -> int | None:
    return None if value is None else int(value)


def missing(silent: Mapping[str, str]) -> str:
    """Return the line about nodes whose figures are not known."""
    named = [f"{node} ({reason})" for node, reason in sorted(silent.items())]
    return f"what is used is not known of {some(named, NAMED)}"


def _reason(body: bytes) -> str:
    """Return the message of a Status of the API server, else the first line."""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode("utf-8", "replace").partition("\n")[0][:200]


def _port(pod: Pod) -> int | None:
    containers = pod.spec.containers if pod.spec is not None else []
    ports = (port for one in containers for port in one.ports or ())
    return next((port.containerPort for port in ports if port.name == STATUS_PORT), None)


def _is_ready(pod: Pod) -> bool:
    conditions = (pod.status.conditions if pod.status is not None else None) or ()
    return any(one.type == "Ready" and one.status == "True" for one in conditions)
