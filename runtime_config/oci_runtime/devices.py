# SPDX-License-Identifier: Apache-2.0
"""What a container must be given for its GPUs under the kernel module, which publishes no description.

Made from the tree and /proc/devices, in the form of the daemon's description. Device nodes are given by
number: they need not exist on the host, and nothing in a container's file system is read.
"""

from __future__ import annotations

from cgpu import paths
from cgpu.errors import CgpuError
from cgpu.request.device_nodes import character_devices
from cgpu.runtime_config.oci_runtime.cdi import KIND, VENDOR_TOOLKIT, Description

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cgpu.client.tree import Tree
    from cgpu.request.resolve import Allocation
    from cgpu.runtime_config.oci_runtime.fields import Table

CONTROL_MINOR = 255
UVM = "nvidia-uvm"


def describe(tree: Tree, allocation: Allocation) -> Description:
    """Describe the GPUs of a request. Raises CgpuError, also where a part of the driver is missing."""
    major = tree.read_int("major")
    if major == 0:
        raise CgpuError(f"{tree.path}/major: 0: the NVIDIA driver is not loaded: modprobe nvidia")
    uvm = next((major for name, major in character_devices() if name == UVM), None)
    if uvm is None:
        raise CgpuError(f"{paths.DEVICES}: has no {UVM}, without which CUDA does not work: modprobe {UVM}")
    common = [_node("nvidiactl", major, CONTROL_MINOR), _node(UVM, uvm, 0), _node(f"{UVM}-tools", uvm, 1)]
    devices = []
    gpus = [*(grant[0] for grant in allocation.grants), *allocation.passthrough]
    for gpu, uuid in zip(gpus, allocation.uuids, strict=True):
        minor = tree.read_int(str(gpu), "minor")
        edits = {"deviceNodes": [_node(f"nvidia{minor}", major, minor)]}
        devices.append({"name": uuid, "containerEdits": edits})
    return Description(
        {
            "kind": KIND,
            "annotations": {VENDOR_TOOLKIT: "true"},
            "containerEdits": {"deviceNodes": common},
            "devices": devices,
        }
    )


def _node(name: str, major: int, minor: int) -> Table:
    return {"path": f"/dev/{name}", "type": "c", "major": major, "minor": minor, "permissions": "rw"}
