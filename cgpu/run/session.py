# SPDX-License-Identifier: Apache-2.0
"""One run: cgroup, process, registration, command, and all of it taken back."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cgpu import paths
from cgpu.client.tree import DAEMON, Tree
from cgpu.config import effective
from cgpu.errors import CgpuError
from cgpu.files import read_bounded
from cgpu.hook import event_log
from cgpu.run import cgroup, child, nodes, supervision
from cgpu.run.cgroup import Group
from cgpu.run.resolve import resolve
from cgpu.runtime_config.oci_runtime import cdi

if TYPE_CHECKING:
    from cgpu.config.effective import Effective
    from cgpu.request.grants import Grant
    from cgpu.request.resolve import Allocation
    from cgpu.run.child import Plan
    from cgpu.run.main import Options

MAX_PROC = 16 << 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """The command's exit status, and a line for each thing that could not be taken back."""

    status: int
    left: tuple[str, ...]


def run(options: Options) -> Outcome:
    """Run the command in its slice. Raises CgpuError when it has not been started; nothing is left then."""
    if os.geteuid() != 0:
        raise CgpuError(f"user {os.geteuid()}: cgpu run needs root: sudo cgpu run")
    parents = _parents()
    # 12 characters: cgpu-smi shows the whole of it.
    container = "run-" + os.urandom(4).hex()
    grants: list[Grant] = []
    try:
        return _in_slice(options, container, grants, parents)
    except child.StartError:
        raise
    except CgpuError as error:
        event_log.refused(container, "", {}, grants, str(error))
        raise


def _in_slice(options: Options, container: str, grants: list[Grant], parents: list[Path]) -> Outcome:
    """Run the command. grants: filled once the slice is known."""
    config = effective.load()
    effective.check_started()
    tree = Tree(paths.tree(config.tree))
    config = tree.refresh(config)
    allocation = resolve(options, tree.gpus(), config)
    grants.extend(allocation.grants)
    plan = _plan(options, container, allocation, tree, config)
    return _run(tree, container, allocation, plan, parents)


def _plan(options: Options, container: str, allocation: Allocation, tree: Tree, config: Effective) -> Plan:
    if tree.kind() != DAEMON:
        return child.Plan(options.command)
    edits = cdi.of_ready_engine().edits(allocation.uuids)
    program = supervision.assemble(os.uname().machine, shared=config.supervise_shared_mappings)
    watched = supervision.Supervision(container, program)
    return child.Plan(options.command, nodes.binds(edits), watched)


def _run(tree: Tree, container: str, allocation: Allocation, plan: Plan, parents: list[Path]) -> Outcome:
    left: list[str] = []
    mask = child.hold()
    with contextlib.ExitStack() as undo:
        group = Group()
        undo.callback(lambda: left.extend(group.remove()))
        group.make(container, parents)
        process = child.start(plan, mask)
        undo.callback(process.close)
        group.add(process.pid)
        tree.register(container, process.pid, allocation.grants)
        undo.callback(_take_back, tree, container, left)
        # Processes that the command has left running end before its slice does.
        undo.callback(group.kill)
        process.release()
        status = process.wait()
    return Outcome(status, tuple(left))


def _take_back(tree: Tree, container: str, left: list[str]) -> None:
    try:
        tree.destroy(container)
    except CgpuError as error:
        left.append(f"{error}; the engine takes the slice back by itself, since its processes are gone")


def _parents() -> list[Path]:
    try:
        texts = [read_bounded(f"/proc/self/{name}", MAX_PROC).decode("utf-8", "surrogateescape")
                 for name in ("cgroup", "mountinfo")]  # fmt: skip
    except OSError as error:
        raise CgpuError(f"/proc/self: cannot be read ({error.strerror}): mount -t proc proc /proc") from error
    return [cgroup.parent(hierarchy) for hierarchy in cgroup.find(*texts)]
