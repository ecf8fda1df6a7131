# SPDX-License-Identifier: Apache-2.0
"""Prepare a bundle for its slice, then become the low-level runtime."""

from __future__ import annotations

import os
import sys
import time

from cgpu import paths
from cgpu.client.tree import MODULE, Tree
from cgpu.config import effective
from cgpu.errors import LINE_START, CgpuError, show
from cgpu.hook.state import has_name
from cgpu.request.resolve import allocate
from cgpu.runtime_config.oci_runtime import lowlevel
from cgpu.runtime_config.oci_runtime.bundle import Bundle
from cgpu.runtime_config.oci_runtime.call import FACTS, Call
from cgpu.runtime_config.oci_runtime.fields import check_members
from cgpu.runtime_config.oci_runtime.spec_json import dumps, loads

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from cgpu.config.effective import Effective
    from cgpu.request.resolve import Allocation
    from cgpu.runtime_config.oci_runtime.edit import Node
    from cgpu.runtime_config.oci_runtime.fields import Table


def main(words: Sequence[str]) -> int:
    """Run one call of the runtime; returns only when that failed, after one line on stderr and in the log.

    words: what the launcher has read out of the command line, in the order of Call, and then all of that.
    """
    call, arguments = Call(*words[:FACTS]), words[FACTS:]
    try:
        if call.unknown:
            raise CgpuError(
                f"option {show(call.unknown)}: not known here, so the place of the bundle is unknown; "
                "install a newer OpenCGPU"
            )
        config = effective.load()
        again = lowlevel.is_marked(os.environ, lowlevel.AGAIN)
        plain = again or lowlevel.is_marked(os.environ, lowlevel.BELOW)
        runtime = lowlevel.find(config.low_level_runtime, plain=plain)
        config = config.replace(low_level_runtime=runtime)  # found or set, it is this one
        if call.command and not again:
            _start(call, config, runtime, arguments)
        lowlevel.execute(runtime, arguments, os.environ)
    except CgpuError as error:
        report(str(error), call.log, call.log_format)
    except Exception as error:
        report(f"internal error: {type(error).__name__}: {show(str(error))}", call.log, call.log_format)
    return 1


def _start(call: Call, config: Effective, runtime: str, arguments: Sequence[str]) -> None:
    """Prepare the bundle and become the runtime; where that fails after the edit, put the bundle back."""
    with Bundle(call.bundle) as bundle:
        raw = bundle.read()
        try:
            prepared = prepare(raw, call, config, runtime, Tree(paths.tree(config.tree)))
        except CgpuError as error:
            _record_refused(raw, call, error)
            raise
        if prepared is None:
            return
        from cgpu.runtime_config.oci_runtime.device_numbers import publish

        edited, edits, annotations = prepared
        record_name(call, annotations)
        publish(edits)
        bundle.write(edited)
        try:
            lowlevel.execute(runtime, arguments, os.environ)
        finally:
            bundle.write(raw)


def _record_refused(raw: bytes, call: Call, error: CgpuError) -> None:
    from cgpu.hook import event_log

    try:
        spec = loads(raw)
    except ValueError:
        spec = None
    event_log.refused(call.container, call.bundle, _annotations(spec), (), str(error))


def prepare(
    raw: bytes, call: Call, config: Effective, runtime: str, tree: Tree
) -> tuple[bytes, Sequence[Table], Table] | None:
    """Return the config.json for a call's container, the engine's edits in it, and its annotations.

    None where nothing is to change. Raises CgpuError.
    """
    spec = _parse(raw, call)
    allocation = allocate(spec, tree, config)
    if allocation is None:
        return None
    if call.command == "restore":
        raise CgpuError("a container with a slice cannot be restored from a checkpoint: create it anew")
    from cgpu.runtime_config.oci_runtime.edit import edit

    node = _node(tree, config, runtime, allocation)
    edit(spec, call.container, allocation, node)
    return dumps(spec), node.description.edits(allocation.uuids), _annotations(spec)


def record_name(call: Call, annotations: Table) -> None:
    """Write for the event log what a container is called that gets a slice."""
    if has_name(call.bundle, annotations):
        from cgpu.hook import event_log

        event_log.named(call.container, call.bundle, annotations)


def _annotations(spec: object) -> Table:
    found = spec.get("annotations") if isinstance(spec, dict) else None
    return found if isinstance(found, dict) else {}


def _node(tree: Tree, config: Effective, runtime: str, allocation: Allocation) -> Node:
    from cgpu.runtime_config.oci_runtime import cdi
    from cgpu.runtime_config.oci_runtime.edit import Node

    module = tree.kind() == MODULE
    description = cdi.describe(tree, allocation) if module else cdi.of_ready_engine()
    return Node(
        config,
        description,
        () if module else lowlevel.seccomp_flags(runtime),
        listener=not module,
        tree=tree.path,
        vendor_runtime=lowlevel.is_vendor(runtime),
    )


def _parse(raw: bytes, call: Call) -> Table:
    try:
        spec = loads(raw)
    except ValueError as error:
        raise CgpuError(f"{call.bundle}/config.json: {error}; expected one JSON object") from error
    if not isinstance(spec, dict):
        raise CgpuError(f"{call.bundle}/config.json: {show(spec)}: expected one JSON object")
    check_members(spec)
    return spec


def report(message: str, log: str, log_format: str) -> None:
    """Write one line to stderr and, in runc's form, to the log file (an empty path: none).

    Container engines show the line of the log.
    """
    line = LINE_START + message
    os.write(2, f"{line}\n".encode("ascii", "backslashreplace"))
    path = log.removeprefix("file:")
    # crun takes other destinations too; there stderr has to do.
    if not path or path.startswith(("journald:", "syslog:")):
        return
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o644)
    except OSError:
        return
    try:
        os.write(fd, _logged(line, log_format))
    except OSError as error:
        sys.stderr.write(f"{LINE_START}{path}: {error.strerror}\n")
    finally:
        os.close(fd)


def _logged(message: str, log_format: str) -> bytes:
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    if log_format == "json":
        return dumps({"level": "error", "msg": message, "time": moment})
    quoted = message.replace("\\", "\\\\").replace('"', '\\"')
    return f'time="{moment}" level=error msg="{quoted}"\n'.encode("ascii", "backslashreplace")
