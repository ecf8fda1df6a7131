# SPDX-License-Identifier: Apache-2.0
"""A container's device nodes for a GPU, as a specification of the Container Device Interface, 0.6.0."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cgpu.kmod.daemon.engine import DeviceNode, Gpu

VERSION = "0.6.0"
KIND = "opencgpu.io/gpu"
VENDOR_TOOLKIT = "opencgpu.io/vendor-toolkit"
# Those of the simulated cards' mount, without which a container in a user namespace may not have it.
OPTIONS = ["bind", "rw", "nosuid", "nodev", "noexec"]


def edits(node: DeviceNode) -> dict[str, Any]:
    """Return the edits that bring one node to where programs look for it."""
    inside = "/dev/" + PurePosixPath(node.path).name
    if node.character_device:
        device = {
            "path": inside,
            "hostPath": node.path,
            "type": "c",
            "major": node.major,
            "minor": node.minor,
            "permissions": "rw",
        }
        return {"deviceNodes": [device]}
    mount = {"hostPath": node.path, "containerPath": inside, "options": OPTIONS}
    return {"mounts": [mount]}


def merge(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Join several edits into one."""
    joined: dict[str, list[Any]] = {}
    for part in parts:
        for key, values in part.items():
            joined.setdefault(key, []).extend(values)
    return joined


def specification(gpus: Sequence[Gpu], nodes: Sequence[DeviceNode]) -> dict[str, Any]:
    """Describe every GPU under its index and its UUID; the nodes all of them need are common.

    nodes: the control node, then others; those of GPUs have the minor number in their name.
    """
    common = [nodes[0], *(n for n in nodes if "uvm" in PurePosixPath(n.path).name)]
    devices = []
    own = {PurePosixPath(node.path).name: node for node in nodes}
    for gpu in gpus:
        node = own.get(f"nvidia{gpu.minor}")
        if node is None:  # the driver does not list it any more
            continue
        names = [str(gpu.index)] + ([gpu.uuid] if gpu.uuid else [])
        devices += [{"name": name, "containerEdits": edits(node)} for name in names]
    return {
        "cdiVersion": VERSION,
        "kind": KIND,
        # The vendor's toolkit finds cards by their device nodes: without these it finds none.
        "annotations": {VENDOR_TOOLKIT: "true" if nodes[0].character_device else "false"},
        "devices": devices,
        "containerEdits": merge([edits(node) for node in common]),
    }
