# SPDX-License-Identifier: Apache-2.0
"""A container's pod, by the annotations that containerd and CRI-O write. See docs/threat-model.md.

An annotation counts by who can have written it. containerd writes its own after those of the pod that its
settings let pass, CRI-O after all of the pod's; neither takes one of an image. podman's pods have CRI-O's
annotations too, and podman before 4.6 copies those of an image.
"""

from __future__ import annotations

from cgpu.request.names import CRIO_MARKS, CRIO_ROOT, MANAGER, PODMAN_MARKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# containerd, internal/cri/annotations/annotations.go
CONTAINERD_MARKS = "io.kubernetes.cri."
CONTAINERD = (CONTAINERD_MARKS + "sandbox-uid", CONTAINERD_MARKS + "container-name")
# The kubelet's labels of a container (pkg/kubelet/types/labels.go), which CRI-O writes as annotations.
KUBELET = ("io.kubernetes.pod.uid", "io.kubernetes.container.name")
CRIO = "cri-o"
# A pod's sandbox carries the annotations of its pod, but runs only the pause program.
TYPES = (CONTAINERD_MARKS + "container-type", CRIO_MARKS + "ContainerType")


class Pod:
    """Known facts of a container's pod.

    by_kubernetes: whether the pod is Kubernetes', or may be. sandbox: whether an annotation says that the
    container is its sandbox, which an image may have written. uid, container: of the pod, and the container's
    name in it; empty where not certainly of containerd or CRI-O.
    """

    __slots__ = ("by_kubernetes", "container", "sandbox", "uid")

    def __init__(self, *, by_kubernetes: bool, sandbox: bool, uid: str = "", container: str = "") -> None:
        self.by_kubernetes = by_kubernetes
        self.sandbox = sandbox
        self.uid = uid
        self.container = container


def read(annotations: Mapping[str, object], root: object) -> Pod:
    """Return what annotations say of the container's pod. root: the path of its root file system."""
    sandbox = any(annotations.get(name) == "sandbox" for name in TYPES)
    by_podman = _is_podman(annotations)
    # The path of a root is absolute with CRI-O, and no pod knows it; with containerd it is always the same.
    proven = isinstance(root, str) and root.startswith("/") and annotations.get(CRIO_ROOT) == root
    if proven and annotations.get(MANAGER) == CRIO:
        uid, container = _both(annotations, KUBELET) if not by_podman else ("", "")
        return Pod(by_kubernetes=True, sandbox=sandbox, uid=uid, container=container)
    if any(name.startswith(CRIO_MARKS) for name in annotations) or MANAGER in annotations:
        sure = any(name.startswith(CONTAINERD_MARKS) for name in annotations)
        sure = sure or annotations.get(MANAGER) == CRIO
        return Pod(by_kubernetes=sure or not by_podman, sandbox=sandbox)
    uid, container = _both(annotations, CONTAINERD) if not by_podman else ("", "")
    return Pod(by_kubernetes=True, sandbox=sandbox, uid=uid, container=container)


def _is_podman(annotations: Mapping[str, object]) -> bool:
    return annotations.get(MANAGER) == "libpod" or any(name.startswith(PODMAN_MARKS) for name in annotations)


def _both(annotations: Mapping[str, object], names: tuple[str, str]) -> tuple[str, str]:
    uid, container = (annotations.get(name) for name in names)
    if isinstance(uid, str) and isinstance(container, str) and uid and container:
        return uid, container
    return "", ""
