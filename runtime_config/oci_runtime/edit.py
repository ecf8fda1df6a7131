# SPDX-License-Identifier: Apache-2.0
"""Edits of a spec for a slice: hooks, listener, GPUs, masks. A second edit changes nothing."""

from __future__ import annotations

import os

from cgpu import paths
from cgpu.client.tree import create_line, destroy_line
from cgpu.errors import CgpuError, show
from cgpu.request.device_nodes import has_vendor_hook
from cgpu.request.spec import VENDOR
from cgpu.runtime_config.oci_runtime import cdi
from cgpu.runtime_config.oci_runtime.fields import entries, objects, set_variable, table
from cgpu.runtime_config.oci_runtime.seccomp import supervise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from cgpu.config.effective import Effective
    from cgpu.request.resolve import Allocation
    from cgpu.runtime_config.oci_runtime.fields import Table

HOOK_PATH = paths.lasting(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__)))) + "/hook/cgpu-hook"
)
HOOK_ENV = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
MASKED = (paths.TREE_MODULE, paths.TREE_DAEMON, paths.RUN)
# Annotations of crun (its manual, and the list of unsafe ones in its source) that leave out the filter, take
# another program, or write to files of the host. A new one is refused until it is listed here as harmless.
RUNTIME_PREFIXES = ("run.oci.", "module.wasm.", "krun.")
HARMLESS = (
    "run.oci.keep_original_groups",
    "run.oci.mount_context_type",
    "run.oci.seccomp_fail_unknown_syscall",
    "run.oci.systemd.force_cgroup_v1",
    "run.oci.systemd.subgroup",
    "run.oci.timens_offset",
)
# With it a process of a container takes over the one by which a runtime begins an exec there, such as for a
# health check of the image, before that has the engine's filter.
TRACING = "CAP_SYS_PTRACE"
# Root without any capability may write the driver's settings there (`registry`, `gpus/*/registry`), and they
# count for the whole node. runc and crun skip a path that does not exist.
READ_ONLY = "/proc/driver/nvidia"


class Node:
    """Facts of this machine for the edit.

    listener: whether the engine takes driver calls through seccomp. description: the CDI edits of a GPU.
    flags: seccomp flags the low-level runtime knows. vendor_runtime: whether it is the vendor's. tree: where
    the engine is.
    """

    __slots__ = ("config", "description", "flags", "listener", "tree", "vendor_runtime")

    def __init__(
        self,
        config: Effective,
        description: cdi.Description,
        flags: Sequence[str] = (),
        *,
        listener: bool,
        tree: str,
        vendor_runtime: bool = False,
    ) -> None:
        self.config = config
        self.description = description
        self.flags = flags
        self.listener = listener
        self.tree = tree
        self.vendor_runtime = vendor_runtime


def edit(spec: Table, container: str, allocation: Allocation, node: Node) -> None:
    """Change a spec so that its container gets its slices. Raises CgpuError; the spec is then half done."""
    _refuse_other_runtime(spec)
    if node.listener and node.config.shared_node:
        _refuse_tracing(spec)
    _add_devices(spec, allocation, node)
    _add_hooks(spec, container, allocation, node)
    if node.listener:
        shared = node.config.supervise_shared_mappings
        supervise(table(spec, "linux"), container, node.flags, shared=shared)
    _mask(spec, node.tree)
    _protect_driver(spec)


def _refuse_other_runtime(spec: Table) -> None:
    annotations = spec.get("annotations")
    for name, value in annotations.items() if isinstance(annotations, dict) else ():
        if name.startswith(RUNTIME_PREFIXES) and name not in HARMLESS:
            raise CgpuError(
                f"annotation {show(name)}={show(value)}: it may change what the low-level runtime runs or "
                "filters; expected a container without it (podman before 4.6 copies those of "
                "the image)"
            )


def _refuse_tracing(spec: Table) -> None:
    process = table(spec, "process")
    found = table(process, "capabilities") if process.get("capabilities") is not None else {}
    for which in found:
        if any(str(name).upper() == TRACING for name in entries(found, which)):
            raise CgpuError(
                f"config.json: process.capabilities: {TRACING}: by it a process can run without the engine's "
                "filter, and users of this node do not trust each other (shared_node: true in "
                "/etc/cgpu/config.yaml); expected a container without it"
            )


def _add_devices(spec: Table, allocation: Allocation, node: Node) -> None:
    description = node.description
    if not (description.vendor_toolkit and node.vendor_runtime):
        cdi.apply(spec, description.edits(allocation.uuids))
    # The vendor's programs would look for cards that they cannot provide.
    idle = not description.vendor_toolkit and (node.vendor_runtime or has_vendor_hook(spec))
    set_variable(spec, VENDOR, "void" if idle else ",".join(allocation.uuids))


def _add_hooks(spec: Table, container: str, allocation: Allocation, node: Node) -> None:
    hooks = table(spec, "hooks")
    for stage in hooks:
        ours = [hook for hook in objects(hooks, stage) if hook.get("path") == HOOK_PATH]
        if ours:
            hooks[stage] = [hook for hook in objects(hooks, stage) if hook.get("path") != HOOK_PATH]
    # First in both lists. A refused container then ends before another hook has done anything, and runc ends
    # the list of poststop hooks at the first that fails.
    _add_hook(hooks, "prestart", create_line(container, *allocation.line_parts()), node)
    _add_hook(hooks, "poststop", destroy_line(container), node)


def _add_hook(hooks: Table, stage: str, line: str, node: Node) -> None:
    arguments = ["cgpu-hook", stage, node.tree, line]
    timeout = node.config.hook_timeout
    entry: Table = {"path": HOOK_PATH, "args": arguments, "env": [HOOK_ENV], "timeout": timeout}
    entries(hooks, stage).insert(0, entry)


def _mask(spec: Table, tree: str) -> None:
    masked = entries(table(spec, "linux"), "maskedPaths")
    masked.extend(path for path in (*MASKED, tree) if path not in masked)


def _protect_driver(spec: Table) -> None:
    read_only = entries(table(spec, "linux"), "readonlyPaths")
    if READ_ONLY not in read_only:
        read_only.append(READ_ONLY)
