# SPDX-License-Identifier: Apache-2.0
"""The agent's sockets, called as the kubelet calls them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import grpc
import pytest

from cgpu.errors import CgpuError
from cgpu.kubernetes.node.allocation import AllocatedShare
from cgpu.kubernetes.node.plugin import HealthReport, Plugin
from cgpu.kubernetes.node.prepare import Claims
from cgpu.kubernetes.node.records import ClaimName, Record
from cgpu.kubernetes.node.sockets import Sockets
from cgpu.kubernetes.proto import dra_pb2, registration_pb2
from cgpu.service_log import ERROR, INFO, Fields
from cgpu.slice import Slice
from tests.kubernetes.node.objects import CLAIM, NODE, T4, share_id

OTHER = CLAIM.replace("1", "2")
DRA = "/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/"
SHARE = AllocatedShare(share_id(0), "r0", T4.device, T4.uuid, Slice(1 << 30).values())


class FewClaims:
    """One claim can be prepared; all others are refused."""

    def __init__(self) -> None:
        self.given_back: list[str] = []
        self.share = SHARE
        self.isolated = True

    def prepare(self, name: ClaimName) -> Record:
        if name.uid != CLAIM:
            raise CgpuError("GPU 0 has too little memory left")
        return Record(name, (self.share,), {"p1": {}}, "card", {"p1": "web-0"}, self.isolated)

    def unprepare(self, uid: str) -> None:
        if uid != CLAIM:
            raise OSError(28, "No space left on device")
        self.given_back.append(uid)


class Kubelet:
    def __init__(self, folder: Path) -> None:
        self.sockets = Sockets.of(folder, "pod-uid")
        self.claims = FewClaims()
        self.report = HealthReport(NODE)
        self.said: list[str] = []
        self.fields: list[dict[str, str | int]] = []
        claims = cast("Claims", self.claims)
        self.plugin = Plugin(claims, NODE, self.sockets, self.report, self.say)

    def say(self, text: str, level: int = INFO, fields: Fields | None = None) -> None:
        self.said.append(text)
        self.fields.append({"level": level, **(fields or {})})

    def call(self, path: Path, method: str, request: Any, response: type[Any]) -> Any:
        with grpc.insecure_channel(f"unix:{path}") as channel:
            stub = channel.unary_unary(
                method,
                request_serializer=type(request).SerializeToString,
                response_deserializer=response.FromString,
            )
            return stub(request, timeout=240)

    def prepare(self, *uids: str) -> Any:
        """Prepare claims c0, c1 and so on, with these UIDs."""
        claims = [dra_pb2.Claim(namespace="team", name=f"c{n}", uid=uid) for n, uid in enumerate(uids)]
        request = dra_pb2.NodePrepareResourcesRequest(claims=claims)
        response = dra_pb2.NodePrepareResourcesResponse
        return self.call(self.sockets.service, f"{DRA}NodePrepareResources", request, response)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return a folder with a short name: the path of a socket has 107 characters at most."""
    with tempfile.TemporaryDirectory(prefix="kubelet") as name:
        yield Path(name)


@pytest.fixture
def kubelet(folder: Path) -> Iterator[Kubelet]:
    found = Kubelet(folder)
    found.plugin.start()
    yield found
    found.plugin.stop()


def test_registration(kubelet: Kubelet) -> None:
    """The kubelet learns who serves where; the agent's log says what the kubelet makes of it."""
    service = "/pluginregistration.Registration/"
    path = kubelet.sockets.registration
    info = kubelet.call(
        path, f"{service}GetInfo", registration_pb2.InfoRequest(), registration_pb2.PluginInfo
    )
    assert (info.type, info.name) == ("DRAPlugin", "gpu.opencgpu.io")
    assert info.endpoint == str(kubelet.sockets.service)
    assert list(info.supported_versions) == ["v1.DRAPlugin", "v1.DRAResourceHealth"]
    refused = registration_pb2.RegistrationStatus(plugin_registered=False, error="no such version")
    answer = registration_pb2.RegistrationStatusResponse
    kubelet.call(path, f"{service}NotifyRegistrationStatus", refused, answer)
    assert kubelet.said == ["the kubelet refused this driver: no such version"]


def test_prepare_of_several_claims(kubelet: Kubelet) -> None:
    """Each claim has its own answer: one that fails does not hold up others."""
    found = kubelet.prepare(CLAIM, OTHER)
    (device,) = found.claims[CLAIM].devices
    assert (device.pool_name, device.device_name, list(device.request_names)) == (NODE, T4.device, ["r0"])
    assert list(device.cdi_device_ids) == [f"opencgpu.io/share={share_id(0)}"]
    assert device.share_id == share_id(0)
    kubelet.claims.isolated = False
    (whole,) = kubelet.prepare(CLAIM).claims[CLAIM].devices
    assert (list(whole.cdi_device_ids), whole.share_id) == ([f"nvidia.com/gpu={T4.uuid}"], share_id(0))
    del kubelet.fields[2:]
    assert found.claims[OTHER].error == "GPU 0 has too little memory left"
    claim = {"namespace": "team", "claim": "c0"}
    assert kubelet.fields == [
        {"level": INFO, **claim, "pod": "web-0", "uuid": T4.uuid},
        {"level": ERROR, **claim, "claim": "c1"},
    ]


def test_a_request_with_alternatives(kubelet: Kubelet) -> None:
    """The kubelet compares a device's requests with what containers name, never an alternative."""
    kubelet.claims.share = replace(SHARE, request="main/small")
    found = kubelet.prepare(CLAIM)
    assert list(found.claims[CLAIM].devices[0].request_names) == ["main"]


def test_unprepare_of_several_claims(kubelet: Kubelet) -> None:
    """Every claim of the request is in the answer, as the kubelet demands."""
    claims = [dra_pb2.Claim(namespace="team", name="c", uid=uid) for uid in (CLAIM, OTHER)]
    request = dra_pb2.NodeUnprepareResourcesRequest(claims=claims)
    path, answer = kubelet.sockets.service, dra_pb2.NodeUnprepareResourcesResponse
    found = kubelet.call(path, f"{DRA}NodeUnprepareResources", request, answer)
    assert set(found.claims) == {CLAIM, OTHER}
    assert (found.claims[CLAIM].error, kubelet.claims.given_back) == ("", [CLAIM])
    assert "No space left" in found.claims[OTHER].error


def test_messages_are_current(repository: Path, tmp_path: Path) -> None:
    """`make proto` would change nothing."""
    sources = sorted(
        path.relative_to(repository) for path in repository.glob("cgpu/kubernetes/proto/*.proto")
    )
    command = [sys.executable, "-m", "grpc_tools.protoc", "-I.", f"--python_out={tmp_path}"]
    subprocess.run([*command, f"--pyi_out={tmp_path}", *map(str, sources)], cwd=repository, check=True)
    made = sorted(path for path in tmp_path.rglob("*_pb2.py*"))
    assert len(made) == 2 * len(sources) == 6
    for path in made:
        assert path.read_text() == (repository / path.relative_to(tmp_path)).read_text(), path.name
