# SPDX-License-Identifier: Apache-2.0
"""Reviews as the API server sends them, over TLS, and the certificate."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
import uvicorn

from cgpu.errors import CgpuError
from cgpu.kubernetes.admission import review, server
from cgpu.kubernetes.admission.certificate import LIFE, Certificate, bundle, make, renew
from cgpu.kubernetes.admission.server import LARGE, MAX_BODY, Webhook
from cgpu.kubernetes.admission.templates import Templates
from cgpu.service_log import INFO, WARNING, Fields

NOW = datetime.now(UTC)
NAMES = ("cgpu-admission.opencgpu.svc", "127.0.0.1")
POD = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"aliyun.com/gpu-mem": 3}}}]}}


class Log:
    """A log whose lines a test can see."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, int, dict[str, str | int]]] = []

    def __call__(self, text: str, level: int = INFO, fields: Fields | None = None) -> None:
        self.lines.append((text, level, dict(fields or {})))


class FewTemplates:
    """Templates that a test can see."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str]] = []

    def sizes(self) -> tuple[int, ...]:
        return ()

    def ensure(self, namespace: str, name: str, spec: dict[str, Any]) -> None:
        if namespace == "full":
            raise CgpuError("the API server says: quota exceeded")
        self.made.append((namespace, name))


def request(document: Any, kind: str = "Pod", **fields: Any) -> bytes:
    asked = {"uid": "u1", "kind": {"kind": kind}, "namespace": "team", "object": document, **fields}
    return json.dumps({"kind": "AdmissionReview", "request": asked}).encode()


@pytest.fixture
def templates() -> FewTemplates:
    return FewTemplates()


def judged(raw: bytes, templates: FewTemplates, log: Log | None = None) -> dict[str, Any]:
    found = review.answer(raw, lambda asked: review.pods(asked, cast("Templates", templates)), log or Log())
    return cast("dict[str, Any]", found["response"])


def test_pod(templates: FewTemplates) -> None:
    """The template is there before the pod that names it."""
    response = judged(request(POD), templates)
    patch = json.loads(base64.b64decode(response["patch"]))
    assert (response["uid"], response["allowed"], response["patchType"]) == ("u1", True, "JSONPatch")
    named = next(one["value"][0] for one in patch if one["path"] == "/spec/resourceClaims")
    assert templates.made == [("team", named["resourceClaimTemplateName"])]


def test_dry_run(templates: FewTemplates) -> None:
    """A dry run changes the pod and makes nothing."""
    assert "patch" in judged(request(POD, dryRun=True), templates)
    assert templates.made == []


def test_refused(templates: FewTemplates) -> None:
    """The user reads one line; what could not be made refuses the pod, too."""
    wrong = {"spec": {"containers": [{"name": "m", "resources": {"limits": {"aliyun.com/gpu-mem": "x"}}}]}}
    response = judged(request(wrong), templates)
    assert response["allowed"] is False
    assert response["status"]["message"].startswith(
        "opencgpu: aliyun.com/gpu-mem: x: expected a whole number"
    )
    assert judged(request(POD, namespace="full"), templates)["allowed"] is False


def test_refusals_are_logged(templates: FewTemplates) -> None:
    """The log says which pod was refused and why: nobody sees the answer to a Deployment's controller."""
    log = Log()
    judged(request({**POD, "metadata": {"generateName": "web-7d9f-"}}, namespace="full"), templates, log)
    judged(request({**POD, "metadata": {"name": {"a": 1}}, "spec": 5}), templates, log)
    judged(request(POD), templates, log)
    assert log.lines == [
        (
            "namespace full pod web-7d9f-: refused: the API server says: quota exceeded",
            WARNING,
            {"namespace": "full", "pod": "web-7d9f-"},
        ),
        (
            "namespace team: refused: the object cannot be read (AttributeError)",
            WARNING,
            {"namespace": "team"},
        ),
    ]


@pytest.mark.parametrize(
    "document", [None, [], 5, {"spec": 5}, {"spec": {"containers": [5]}}, {"metadata": []}]
)
def test_no_pod(templates: FewTemplates, document: Any) -> None:
    """What is no pod is never let through with a slice, and ends nothing."""
    assert "patch" not in judged(request(document), templates)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"{}", b'{"request": {"uid": 5}}', b'{"request": []}'])
def test_no_review(templates: FewTemplates, raw: bytes) -> None:
    """What is no review is none."""
    with pytest.raises(ValueError, match=r".*"):
        judged(raw, templates)


@pytest.mark.parametrize("kind", ["ResourceClaim", "ResourceClaimTemplate", "DeviceClass"])
def test_parameters_of_claims(kind: str) -> None:
    """A claim, or a class, whose parameters would be refused at a pod's start is refused when it is made.

    A claim's own weight would be: the scheduler does not count it.
    """
    for fields, allowed in (
        ({"policy": 2}, True),
        ({"policy": "2"}, False),
        ({"weight": 2}, kind == "DeviceClass"),
    ):
        parameters = {"apiVersion": "gpu.opencgpu.io/v1", "kind": "ShareParameters", **fields}
        opaque = {"driver": "gpu.opencgpu.io", "parameters": parameters}
        config, log = [{"opaque": opaque}], Log()
        specs: dict[str, dict[str, Any]] = {
            "ResourceClaim": {"devices": {"config": config}},
            "ResourceClaimTemplate": {"spec": {"devices": {"config": config}}},
            "DeviceClass": {"config": config},
        }
        raw = request({"metadata": {"name": "mine"}, "spec": specs[kind]}, kind)
        assert review.answer(raw, review.claims, log)["response"]["allowed"] is allowed
        assert [set(fields) - {"namespace"} for _, _, fields in log.lines] == (
            [] if allowed else [{review.FIELDS[kind]}]
        )


def test_certificate() -> None:
    """It is renewed in time, by the same authority, which a new one follows before it ends."""
    first = make(NAMES, NOW)
    assert not first.is_due(NOW)
    assert first.is_due(NOW + timedelta(days=61))
    second = renew(first, NAMES, NOW + timedelta(days=61))
    assert (second.ca_crt, second.tls_crt != first.tls_crt) == (first.ca_crt, True)
    late = NOW + timedelta(days=3650) - LIFE / 2
    assert renew(first, NAMES, late).ca_crt != first.ca_crt
    assert Certificate.from_data(first.to_data()) == first
    third = make(NAMES, NOW)
    assert bundle(first.ca_crt, b"", NOW) == bundle(first.ca_crt, b"junk", NOW) == first.ca_crt
    assert bundle(third.ca_crt, first.ca_crt, NOW) == third.ca_crt + first.ca_crt
    assert bundle(third.ca_crt, third.ca_crt + first.ca_crt, NOW) == third.ca_crt + first.ca_crt
    assert bundle(third.ca_crt, first.ca_crt, NOW + timedelta(days=4000)) == third.ca_crt
    with pytest.raises(CgpuError, match=r"tls.key is missing"):
        Certificate.from_data({**first.to_data(), "tls.key": b""})


@pytest.fixture
def served(tmp_path: Path, templates: FewTemplates) -> Iterator[httpx2.Client]:
    """Yield a client of a webhook that serves, which trusts its authority alone."""
    made = make(NAMES, NOW)
    (tmp_path / "tls.crt").write_bytes(made.tls_crt)
    (tmp_path / "tls.key").write_bytes(made.tls_key)
    running = uvicorn.Server(
        uvicorn.Config(
            Webhook(cast("Templates", templates), Log()),
            host="127.0.0.1",
            port=0,
            ssl_certfile=tmp_path / "tls.crt",
            ssl_keyfile=tmp_path / "tls.key",
            log_config=None,
            lifespan="off",
        )
    )
    thread = threading.Thread(target=lambda: asyncio.run(running.serve()))
    thread.start()
    while not running.started:
        thread.join(0.02)
        assert thread.is_alive()
    port = running.servers[0].sockets[0].getsockname()[1]
    trusted = ssl.create_default_context(cadata=made.ca_crt.decode())
    with httpx2.Client(base_url=f"https://127.0.0.1:{port}", verify=trusted, trust_env=False) as client:
        yield client
    running.should_exit = True
    thread.join()


def test_server(served: httpx2.Client) -> None:
    """Reviews over TLS; other paths, other bodies and too large ones are refused, and it goes on."""
    assert served.get("/healthz").text == "ok"
    assert served.post("/pods", content=request(POD)).json()["response"]["patchType"] == "JSONPatch"
    assert served.post("/pods", content=b"{").status_code == 400
    assert served.post("/other", content=request(POD)).status_code == 404
    assert served.get("/pods").status_code == 404
    assert served.post("/pods", content=b" " * (MAX_BODY + 1)).status_code == 413
    assert served.post("/claims", content=request({}, "ResourceClaim")).json()["response"]["allowed"] is True


def test_no_connection_is_kept(served: httpx2.Client) -> None:
    """The API server has no connection left that the webhook may close while a call is on its way."""
    calls = [request(POD), b"{", b" " * (MAX_BODY + 1)]
    headers = [served.post("/pods", content=call).headers for call in calls]
    assert [found["connection"] for found in [*headers, served.get("/").headers]] == ["close"] * 4


def test_large_bodies_go_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body takes many times its length in memory when it is read; small ones wait for none."""
    now, most = {True: 0, False: 0}, {True: 0, False: 0}
    lock = threading.Lock()

    def answer(body: bytes, _judge: object, _say: object) -> dict[str, Any]:
        large = len(body) > LARGE
        with lock:
            now[large] += 1
            most[large] = max(most[large], now[large])
        time.sleep(0.1)
        with lock:
            now[large] -= 1
        return {}

    monkeypatch.setattr(review, "answer", answer)
    asyncio.run(_post_at_once([b" " * (LARGE + 1), b" "] * 4))
    assert (most[True], most[False] > 1) == (1, True)


def test_a_body_that_never_ends(served: httpx2.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds up other large ones for a bounded time."""
    monkeypatch.setattr(server, "BODY_S", 0.2)

    def slow() -> Iterator[bytes]:
        yield b"{"
        time.sleep(1)
        yield b"}"

    assert served.post("/pods", content=slow()).status_code == 408
    monkeypatch.undo()
    assert served.post("/pods", content=request(POD) + b" " * LARGE).json()["response"]["allowed"] is True


async def _post_at_once(bodies: list[bytes]) -> None:
    webhook = Webhook(cast("Templates", FewTemplates()), Log())

    async def post(body: bytes) -> None:
        async def receive() -> dict[str, Any]:
            await asyncio.sleep(0)
            return {"body": body}

        async def send(_message: Any) -> None:
            await asyncio.sleep(0)

        headers = [(b"content-length", str(len(body)).encode())]
        await webhook({"type": "http", "method": "POST", "path": "/pods", "headers": headers}, receive, send)

    await asyncio.gather(*map(post, bodies))
