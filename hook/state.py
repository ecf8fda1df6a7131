# SPDX-License-Identifier: Apache-2.0
"""The container's state, as a runtime gives it to a hook (OCI runtime-spec, runtime.md)."""

from __future__ import annotations

from cgpu.errors import CgpuError, show
from cgpu.fastjson import loads
from cgpu.files import read_fd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_STATE = 1 << 20
MAX_PID = 1 << 22
# Annotations with a pod's name: of containerd, and of the kubelet, which CRI-O has.
POD = ("io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name")
# containerd keeps docker's bundles below this name.
OF_DOCKER = "/moby/"
SOURCE = "state on standard input"


def has_name(bundle: str, annotations: Mapping[str, object]) -> bool:
    """Return whether a container may have a name for the event log: one of a pod, or docker's."""
    return OF_DOCKER in bundle or any(name in annotations for name in POD)


class State:
    """Members of the state that a hook needs. One that the runtime did not give is 0 or empty."""

    __slots__ = ("annotations", "bundle", "id", "pid")

    def __init__(
        self,
        id: str,  # noqa: A002, the specification's name
        pid: int,
        bundle: str,
        annotations: dict[str, object],
    ) -> None:
        self.id = id
        self.pid = pid
        self.bundle = bundle
        self.annotations = annotations


def read_state(fd: int) -> State:
    """Read the state to the end of fd. Raises CgpuError for anything that is not one, or is over 1 MiB."""
    try:
        raw = read_fd(fd, MAX_STATE)
    except OSError as error:
        raise CgpuError(f"{SOURCE}: cannot be read ({error.strerror}); expected at most 1 MiB") from error
    return parse_state(raw)


def parse_state(raw: bytes) -> State:
    """Read a state from its JSON text. Unknown fields are ignored. Raises CgpuError."""
    try:
        document = loads(raw)
    except ValueError as error:
        raise CgpuError(f"{SOURCE}: is not JSON ({error}); expected an OCI state") from error
    if not isinstance(document, dict):
        raise CgpuError(f"{SOURCE}: {show(document)}: expected a JSON object")
    # Before version 1.0.0-rc2 the bundle was called bundlePath.
    bundle = document.get("bundle", document.get("bundlePath", ""))
    if not isinstance(bundle, str):
        raise CgpuError(f"{SOURCE}: bundle: {show(bundle)}: expected a string")
    annotations = document.get("annotations")
    # Annotations serve names in the event log alone: malformed ones are ignored.
    known = annotations if isinstance(annotations, dict) else {}
    return State(_id(document.get("id")), _pid(document.get("pid", 0)), bundle, known)


def _id(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise CgpuError(f"{SOURCE}: id: {show(value)}: expected a string")
    return value


def _pid(value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_PID:
        raise CgpuError(f"{SOURCE}: pid: {show(value)}: expected a whole number from 0 to {MAX_PID}")
    return value
