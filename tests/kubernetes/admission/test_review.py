# SPDX-License-Identifier: Apache-2.0
"""Reviews as the API server sends them, over TLS."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest

from cgpu.errors import CgpuError
from cgpu.kubernetes.admission import review, server
from cgpu.kubernetes.admission.main import tls_context
from cgpu.kubernetes.admission.rewrite import Rewritten, Settings
from cgpu.kubernetes.admission.server import MAX_BODY, PART, Webhook
from cgpu.kubernetes.admission.templates import Templates
from cgpu.kubernetes.admission.turns import Turns
from cgpu.page_server import Bounds
from cgpu.service_log import INFO, WARNING, Fields
from tests.kubernetes.admission.published import Published
from tests.kubernetes.harness import certificates

POD = {"spec": {"containers": [{"name": "main", "resources": {"limits": {"aliyun.com/gpu-mem": 3}}}]}}


class Log:
    def __init__(self) -> None:
        self.lines: list[tuple[str, int, dict[str, str | int]]] = []

    def __call__(self, text: str, level: int = INFO, fields: Fields | None = None) -> None:
        self.lines.append((text, level, dict(fields or {})))


class FewTemplates:
    def __init__(self) -> None:
        self.made: list[tuple[str, str]] = []
        self.cards = Published(15360)
        self.turns = Turns()
        self.client = SimpleNamespace(list=self.quotas)

    def quotas(self, _kind: type, *, namespace: str) -> list[SimpleNamespace]:
        """Return the quota of the namespace `counted`; others have none."""
        spec = SimpleNamespace(hard={"requests.aliyun.com/gpu-mem": "4"})
        return [SimpleNamespace(metadata=None, spec=spec)] if namespace == "counted" else []

    def ensure(self, namespace: str, name: str, spec: dict[str, Any]) -> None:
        if namespace == "full":
            raise CgpuError("the API server says: quota exceeded")
        self.made.append((namespace, name))


def request(document: Any, kind: str = "Pod", **fields: Any) -> bytes:
    asked = {
        "uid": "u1",
        "kind": {"group": "" if kind == "Pod" else "resource.k8s.io", "version": "v1", "kind": kind},
        "operation": "CREATE",
        "namespace": "team",
        "userInfo": {"username": "system:serviceaccount:kube-system:job-controller"},
        "object": document,
        **fields,
    }
    head = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return json.dumps({**head, "request": asked}).encode()


@pytest.fixture
def templates() -> FewTemplates:
    return FewTemplates()


def judged(raw: bytes, templates: FewTemplates, log: Log | None = None) -> dict[str, Any]:
    def judge(asked: Mapping[str, Any]) -> Rewritten:
        return review.pods(asked, cast("Templates", templates), Settings())

    found = review.answer(raw, judge, log or Log())
    return cast("dict[str, Any]", found["response"])


def test_pod(templates: FewTemplates) -> None:
    """The template is there before the pod that names it; a dry run makes none."""
    assert "patch" in judged(request(POD, dryRun=True), templates)
    assert templates.made == []
    response = judged(request(POD), templates)
    patch = json.loads(base64.b64decode(response["patch"]))
    assert (response["uid"], response["allowed"], response["patchType"]) == ("u1", True, "JSONPatch")
    named = next(one["value"][0] for one in patch if one["path"] == "/spec/resourceClaims")
    assert templates.made == [("team", named["resourceClaimTemplateName"])]


def test_refused(templates: FewTemplates) -> None:
    """The user reads one line; a template that could not be made refuses the pod, too."""
    wrong = {"spec": {"containers": [{"name": "m", "resources": {"limits": {"aliyun.com/gpu-mem": "x"}}}]}}
    response = judged(request(wrong), templates)
    assert response["allowed"] is False
    assert response["status"]["message"].startswith(
        "opencgpu: aliyun.com/gpu-mem: x: expected a whole number"
    )
    assert judged(request(POD, namespace="full"), templates)["allowed"] is False


def test_refusals_are_logged(templates: FewTemplates) -> None:
    """The log says which pod was refused and why: users do not see the answer to a controller."""
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
    """An object that is no pod never gets a slice, and ends nothing."""
    assert "patch" not in judged(request(document), templates)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"{}", b'{"request": {"uid": 5}}', b'{"request": []}'])
def test_no_review(templates: FewTemplates, raw: bytes) -> None:
    """A body that is no review raises ValueError."""
    with pytest.raises(ValueError, match=r".*"):
        judged(raw, templates)


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": {"group": "", "version": "v1", "kind": "Node"}},
        {"operation": "UPDATE"},
        {"subResource": "ephemeralcontainers"},
        {"namespace": "team/resourceclaimtemplates?x="},
        {"namespace": None},
        {"object": {**POD, "metadata": {"namespace": "kube-system"}}},
        {"userInfo": {}},
    ],
)
def test_no_new_pod(templates: FewTemplates, fields: dict[str, Any]) -> None:
    """A request that no API server sends for the webhook's rules makes no template."""
    try:
        assert judged(request(POD, **fields), templates)["allowed"] is False
    except ValueError:
        assert not fields.get("userInfo", True)
    assert templates.made == []


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


@contextmanager
def serving(
    folder: Path, templates: FewTemplates, bounds: Bounds = server.BOUNDS, authority: bytes = b""
) -> Iterator[str]:
    """Yield the URL of a webhook, as the command serves it. authority: of clients."""
    certificates.make(folder)
    clients = folder / "clients.crt"
    clients.write_bytes(authority)
    context = tls_context(folder, clients if authority else None)
    found = Webhook(("127.0.0.1", 0), context, cast("Templates", templates), Log(), bounds)
    thread = threading.Thread(target=found.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"https://127.0.0.1:{found.port}"
    finally:
        found.shutdown()
        found.await_answers()
        found.server_close()
        thread.join()


def client_of(url: str, folder: Path, shows: str = "") -> httpx2.Client:
    """Return a client that trusts the webhook's certificate alone. shows: its own one, from the folder."""
    trusted = ssl.create_default_context(cafile=folder / "tls.crt")
    if shows:
        trusted.load_cert_chain(folder / f"{shows}.crt", folder / f"{shows}.key")
    return httpx2.Client(base_url=url, verify=trusted, trust_env=False)


@pytest.fixture
def served(tmp_path: Path, templates: FewTemplates) -> Iterator[httpx2.Client]:
    with serving(tmp_path, templates) as url, client_of(url, tmp_path) as client:
        yield client


def test_only_who_proves_it(tmp_path: Path, templates: FewTemplates) -> None:
    """With an authority of clients reviews count from who has its certificate; anybody asks for health."""
    authority = certificates.make(tmp_path, "right")
    certificates.make(tmp_path, "other")
    with serving(tmp_path, templates, authority=authority) as url:
        with client_of(url, tmp_path) as nobody:
            assert nobody.get("/healthz").status_code == 200
            assert nobody.post("/pods", content=request(POD)).status_code == 403
        with client_of(url, tmp_path, "other") as other, pytest.raises(httpx2.HTTPError):
            other.post("/pods", content=request(POD))
        assert templates.made == []
        with client_of(url, tmp_path, "right") as api_server:
            assert api_server.post("/pods", content=request(POD)).status_code == 200


def test_a_crowd_takes_no_place_of_others(tmp_path: Path, templates: FewTemplates) -> None:
    """One address has connections in every state, more than there are places: another's call is answered."""
    with serving(tmp_path, templates, Bounds(8, 60, 8)) as url:
        port = int(url.rpartition(":")[2])
        crowd = [
            socket.create_connection(("127.0.0.1", port), source_address=("127.0.0.2", 0)) for _ in range(8)
        ]
        trusted = ssl.create_default_context(cafile=tmp_path / "tls.crt")
        crowd[0].settimeout(60)
        crowd[6:] = [trusted.wrap_socket(one, server_hostname="127.0.0.1") for one in crowd[6:]]
        crowd[7].sendall(b"POST /pods HTTP/1.1\r\n")
        with client_of(url, tmp_path) as client:
            for _ in range(8):
                assert client.post("/pods", content=request(POD)).status_code == 200
        assert crowd[0].recv(1) == b""  # the oldest one made place
        for one in crowd:
            one.close()


def test_no_connection_stays(tmp_path: Path, templates: FewTemplates) -> None:
    """A connection ends when its time is over, in its handshake and in a body that never ends."""
    with serving(tmp_path, templates, Bounds(8, 0.3, 8)) as url:
        place = ("127.0.0.1", int(url.rpartition(":")[2]))
        trusted = ssl.create_default_context(cafile=tmp_path / "tls.crt")
        with (
            socket.create_connection(place) as idle,
            trusted.wrap_socket(socket.create_connection(place), server_hostname="127.0.0.1") as slow,
        ):
            slow.sendall(b"POST /pods HTTP/1.1\r\ncontent-length: 9\r\n\r\n{")
            for one in (idle, slow):
                one.settimeout(20)
                assert one.recv(1) == b""


def test_server(served: httpx2.Client) -> None:
    """Reviews over TLS; other paths, other bodies and too large ones are refused, and it goes on."""
    assert served.get("/healthz").text == "ok"
    answer = served.post("/pods?timeout=10s", content=request(POD)).json()
    assert answer["response"]["patchType"] == "JSONPatch"
    assert served.post("/pods", content=b"{").status_code == 400
    assert served.post("/other", content=request(POD)).status_code == 404
    assert served.get("/pods").status_code == 404
    assert served.post("/pods", content=b" " * (MAX_BODY + 1)).status_code == 413
    assert served.post("/pods", content=iter([b"{}"])).status_code == 411
    assert served.post("/pods", content=b"[" * 100_000).status_code == 400
    assert served.post("/pods", content=request(POD) + b" " * PART).json()["response"]["allowed"] is True
    assert served.post("/claims", content=request({}, "ResourceClaim")).json()["response"]["allowed"] is True


def test_no_connection_is_kept(served: httpx2.Client) -> None:
    """The API server has no connection left that the webhook may close while a call is on its way."""
    calls = [request(POD), b"{", b" " * (MAX_BODY + 1)]
    headers = [served.post("/pods", content=call).headers for call in calls]
    assert [found["connection"] for found in [*headers, served.get("/").headers]] == ["close"] * 4
