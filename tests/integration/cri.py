# SPDX-License-Identifier: Apache-2.0
"""A client of CRI, by which Kubernetes drives container engines: as much as pods of one container need.

Numbers of fields are those of runtime.v1 in kubernetes/cri-api, pkg/apis/runtime/v1/api.proto.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from google.protobuf import json_format
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from tests.integration.commands import Outcome

PACKAGE = "runtime.v1"
NODE = 2  # NamespaceMode: the machine's own
DEADLINE_S = 240
# Name, number and type of each field; "*" stands for repeated.
MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "PodSandboxMetadata": {"name": (1, "string"), "uid": (2, "string"), "namespace": (3, "string")},
    "NamespaceOption": {"network": (1, "int32")},
    "LinuxSandboxSecurityContext": {"namespace_options": (1, "NamespaceOption")},
    "LinuxPodSandboxConfig": {"security_context": (2, "LinuxSandboxSecurityContext")},
    "PodSandboxConfig": {"metadata": (1, "PodSandboxMetadata"), "linux": (8, "LinuxPodSandboxConfig")},
    "RunPodSandboxRequest": {"config": (1, "PodSandboxConfig"), "runtime_handler": (2, "string")},
    "RunPodSandboxResponse": {"pod_sandbox_id": (1, "string")},
    "StopPodSandboxRequest": {"pod_sandbox_id": (1, "string")},
    "StopPodSandboxResponse": {},
    "RemovePodSandboxRequest": {"pod_sandbox_id": (1, "string")},
    "RemovePodSandboxResponse": {},
    "ContainerMetadata": {"name": (1, "string")},
    "ImageSpec": {"image": (1, "string")},
    "KeyValue": {"key": (1, "string"), "value": (2, "string")},
    "CDIDevice": {"name": (1, "string")},
    "ContainerConfig": {
        "metadata": (1, "ContainerMetadata"),
        "image": (2, "ImageSpec"),
        "command": (3, "string*"),
        "envs": (6, "KeyValue*"),
        "CDI_devices": (17, "CDIDevice*"),
    },
    "CreateContainerRequest": {
        "pod_sandbox_id": (1, "string"),
        "config": (2, "ContainerConfig"),
        "sandbox_config": (3, "PodSandboxConfig"),
    },
    "CreateContainerResponse": {"container_id": (1, "string")},
    "StartContainerRequest": {"container_id": (1, "string")},
    "StartContainerResponse": {},
    "ExecSyncRequest": {"container_id": (1, "string"), "cmd": (2, "string*"), "timeout": (3, "int64")},
    "ExecSyncResponse": {"stdout": (1, "string"), "stderr": (2, "string"), "exit_code": (3, "int32")},
}
PLAIN = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
}


class RefusedError(Exception):
    """containerd has refused to do something, in its words."""


def _messages() -> DescriptorPool:
    file = FileDescriptorProto(name="cri.proto", package=PACKAGE, syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            one = message.field.add(name=field, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
            if kind.endswith("*"):
                one.label = FieldDescriptorProto.LABEL_REPEATED
            bare = kind.rstrip("*")
            one.type = PLAIN.get(bare, FieldDescriptorProto.TYPE_MESSAGE)
            if bare not in PLAIN:
                one.type_name = f".{PACKAGE}.{bare}"
    pool = DescriptorPool()
    pool.Add(file)
    return pool


POOL = _messages()


@dataclass(frozen=True)
class Pod:
    """A pod's sandbox and its one container."""

    sandbox: str
    container: str = ""


class Cri:
    """An engine at a socket."""

    def __init__(self, socket: Path) -> None:
        self._channel = grpc.insecure_channel(f"unix:{socket}")

    def close(self) -> None:
        self._channel.close()

    def ask(self, method: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Make one call. Raises RefusedError."""
        request, response = (
            GetMessageClass(POOL.FindMessageTypeByName(f"{PACKAGE}.{method}{kind}"))
            for kind in ("Request", "Response")
        )
        message = json_format.ParseDict(dict(fields), request())
        call = self._channel.unary_unary(
            f"/{PACKAGE}.RuntimeService/{method}",
            request_serializer=request.SerializeToString,
            response_deserializer=response.FromString,
        )
        try:
            answer = call(message, timeout=DEADLINE_S, wait_for_ready=True)
        except grpc.RpcError as error:
            raise RefusedError(str(error.details())) from error
        found: dict[str, Any] = json_format.MessageToDict(answer, preserving_proto_field_name=True)
        return found

    def sandbox(self, name: str, handler: str = "") -> Pod:
        """Start a sandbox in the machine's network. handler: that of a RuntimeClass. Raises RefusedError."""
        answer = self.ask("RunPodSandbox", {"config": _sandbox(name), "runtime_handler": handler})
        return Pod(answer["pod_sandbox_id"])

    def start(
        self,
        pod: Pod,
        name: str,
        image: str,
        command: Sequence[str],
        env: Mapping[str, str],
        devices: Sequence[str] = (),
    ) -> Pod:
        """Start a container in the sandbox of that name. devices: of CDI. Raises RefusedError."""
        config = {
            "metadata": {"name": name},
            "image": {"image": image},
            "command": list(command),
            "envs": [{"key": key, "value": value} for key, value in env.items()],
            "CDI_devices": [{"name": device} for device in devices],
        }
        request = {"pod_sandbox_id": pod.sandbox, "config": config, "sandbox_config": _sandbox(name)}
        container = self.ask("CreateContainer", request)["container_id"]
        self.ask("StartContainer", {"container_id": container})
        return Pod(pod.sandbox, container)

    def exec(self, pod: Pod, *command: str) -> Outcome:
        """Run a command in the container to its end. Raises RefusedError."""
        request = {"container_id": pod.container, "cmd": command, "timeout": DEADLINE_S}
        answer = self.ask("ExecSync", request)
        return Outcome(answer.get("exit_code", 0), answer.get("stdout", ""), answer.get("stderr", ""))

    def remove(self, pod: Pod) -> None:
        """Stop the pod and remove it. Raises RefusedError."""
        self.ask("StopPodSandbox", {"pod_sandbox_id": pod.sandbox})
        self.ask("RemovePodSandbox", {"pod_sandbox_id": pod.sandbox})


def _sandbox(name: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": name, "namespace": "tests"},
        "linux": {"security_context": {"namespace_options": {"network": NODE}}},
    }
