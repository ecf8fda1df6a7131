# SPDX-License-Identifier: Apache-2.0
"""The CDI description of a container's GPUs, which is put into the spec.

The daemon publishes a description. For the kernel module, which publishes none, one is made from the tree and
/proc/devices. It gives device nodes by number: they need not exist on the host, and nothing in a container's
file system is read. The format is the Container Device Interface 0.6.0, as far as the engine uses it (nodes
with their numbers, and mounts); anything else is refused, not ignored.
"""

from __future__ import annotations

import os

from cgpu import paths
from cgpu.errors import CgpuError, show
from cgpu.files import read_bounded
from cgpu.request.device_nodes import character_devices
from cgpu.runtime_config.oci_runtime.fields import entries, objects, replace, table
from cgpu.runtime_config.oci_runtime.spec_json import loads

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cgpu.client.tree import Tree
    from cgpu.request.resolve import Allocation
    from cgpu.runtime_config.oci_runtime.fields import Table

KIND = "opencgpu.io/gpu"
VENDOR_TOOLKIT = "opencgpu.io/vendor-toolkit"
MAX_BYTES = 1 << 20
EDITS = ("deviceNodes", "mounts")
NUMBERS = ("type", "major", "minor")
RESTART = f"write it anew: {paths.daemon_command('restart')}"
CONTROL_MINOR = 255
UVM = "nvidia-uvm"


class Description:
    """The engine's description of this node's GPUs."""

    __slots__ = ("_common", "_devices", "vendor_toolkit")

    def __init__(self, document: object) -> None:
        """Take a CDI document. Raises CgpuError when it is not the engine's."""
        if not isinstance(document, dict) or document.get("kind") != KIND:
            raise CgpuError(f"{paths.CDI}: not a CDI specification of kind {KIND}; {RESTART}")
        #: whether the vendor's own toolkit can provide these cards
        self.vendor_toolkit = table(document, "annotations").get(VENDOR_TOOLKIT) == "true"
        self._common = table(document, "containerEdits")
        self._devices = {str(device.get("name")): device for device in objects(document, "devices")}

    def edits(self, names: Sequence[str]) -> list[Table]:
        """Return the edits for some devices, common ones first. Raises CgpuError for an unknown device."""
        missing = [name for name in names if name not in self._devices]
        if missing:
            raise CgpuError(f"{paths.CDI}: has no device {show(missing[0])}; {RESTART}")
        return [self._common, *(table(self._devices[name], "containerEdits") for name in names)]


def load(path: str = paths.CDI) -> Description | None:
    """Read the engine's description; None when there is none. Raises CgpuError when it cannot be read."""
    try:
        raw = read_bounded(path, MAX_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CgpuError(f"{path}: cannot be read ({error.strerror}); {RESTART}") from error
    try:
        return Description(loads(raw))
    except ValueError as error:
        raise CgpuError(f"{path}: {error}; {RESTART}") from error


def of_ready_engine() -> Description:
    """Return the description of a daemon that takes listeners. Raises CgpuError when it is not ready."""
    description = load(paths.CDI)
    if description is None or not os.path.lexists(paths.SECCOMP_SOCKET):
        missing = paths.CDI if description is None else paths.SECCOMP_SOCKET
        raise CgpuError(f"{missing}: missing, so the engine is not ready: {paths.daemon_command('restart')}")
    return description


def apply(spec: Table, edits: Sequence[Table]) -> None:
    """Put edits into a spec. An entry with the same path is replaced, so that a second call changes nothing.

    Raises CgpuError.
    """
    for edit in edits:
        unknown = [key for key in edit if key not in EDITS]
        if unknown:
            expected = ", ".join(EDITS)
            raise CgpuError(f"{paths.CDI}: containerEdits.{show(unknown[0])}: expected one of {expected}")
        for node in objects(edit, "deviceNodes"):
            _add_device(spec, node)
        for mount in objects(edit, "mounts"):
            _add_mount(spec, mount)


def _path(entry: Table, name: str) -> str:
    path = entry.get(name)
    if not isinstance(path, str) or not path.startswith("/"):
        raise CgpuError(f"{paths.CDI}: {name}: {show(path)}: expected an absolute path")
    return path


def _same(path: object, other: str) -> bool:
    return isinstance(path, str) and os.path.normpath(path) == os.path.normpath(other)


def _is_at(entry: object, member: str, path: str) -> bool:
    return isinstance(entry, dict) and _same(entry.get(member), path)


def _put(places: list[object], member: str, entry: Table) -> None:
    path = str(entry[member])
    replace(places, lambda old: _is_at(old, member, path), entry)


def _remove(parent: Table, name: str, member: str, path: str) -> None:
    places = parent.get(name)
    if isinstance(places, list):
        places[:] = [old for old in places if not _is_at(old, member, path)]


def _add_device(spec: Table, node: Table) -> None:
    path = _path(node, "path")
    numbers: Table = {name: node.get(name) for name in NUMBERS}
    if None in numbers.values():
        raise CgpuError(f"{paths.CDI}: {show(path)}: expected {', '.join(NUMBERS)}; {RESTART}")
    _remove(spec, "mounts", "destination", path)
    linux = table(spec, "linux")
    _put(entries(linux, "devices"), "path", {"path": path, **numbers})
    # No "m": a container has no reason to make such nodes itself.
    rule: Table = {"allow": True, **numbers, "access": "rw"}
    rules = entries(table(linux, "resources"), "devices")
    if rule not in rules:
        rules.append(rule)


def _add_mount(spec: Table, mount: Table) -> None:
    source, destination = _path(mount, "hostPath"), _path(mount, "containerPath")
    if os.path.normpath(destination).startswith("/dev/") and _has_host_dev(spec):
        raise CgpuError(
            "the container mounts a directory over its /dev, where its GPU's nodes cannot be placed without "
            "leaving traces in that directory: expected a container with a /dev of its own"
        )
    entry: Table = {
        "destination": destination,
        "type": "bind",
        "source": source,
        "options": mount.get("options") or ["bind", "nosuid", "noexec", "rw"],
    }
    _remove(table(spec, "linux"), "devices", "path", destination)
    _put(entries(spec, "mounts"), "destination", entry)


def _has_host_dev(spec: Table) -> bool:
    for mount in objects(spec, "mounts"):
        options = mount.get("options")
        bound = mount.get("type") == "bind" or (
            isinstance(options, list) and ("bind" in options or "rbind" in options)
        )
        if bound and _same(mount.get("destination"), "/dev"):
            return True
    return False


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
    return {"path": f"/dev/{name}", "type": "c", "major": major, "minor": minor}
