# SPDX-License-Identifier: Apache-2.0
"""Reading the tree: which GPUs there are and who has slices of them."""

from __future__ import annotations

import errno

from cgpu.errors import CgpuError
from cgpu.smi.limits import with_limits
from cgpu.smi.model import Container, Gpu
from cgpu.tree import EngineDownError, Tree, is_index

# A container that stops takes its directory along, between two reads too. FUSE may say ESTALE for that.
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)


def look(tree: Tree) -> tuple[Gpu, ...]:
    """Read every GPU, in order. Raises EngineDownError; CgpuError when a node does not read as agreed."""
    tree.read("version")  # an engine that died may leave an empty directory
    indexes = sorted(int(name) for name in tree.names() if is_index(name))
    return tuple(with_limits(gpu(tree, str(index))) for index in indexes)


def gpu(tree: Tree, index: str) -> Gpu:
    """Read one GPU directory. Raises CgpuError."""
    return Gpu(
        index=int(index),
        uuid=tree.read(index, "uuid"),
        model=tree.read(index, "name"),
        policy=tree.read_int(index, "policy"),
        max_inst=tree.read_int(index, "max_inst"),
        prio_ratio=tree.read_int(index, "prio_ratio"),
        total=tree.read_int(index, "memtotal"),
        containers=containers(tree, index),
    )


def containers(tree: Tree, index: str) -> tuple[Container, ...]:
    """Read the containers on a GPU, sorted by id, without those that stop meanwhile. Raises CgpuError."""
    found = []
    for name in tree.containers(int(index)):
        try:
            found.append(container(tree, index, name))
        except EngineDownError:
            raise
        except CgpuError as error:
            if not is_gone(error):
                raise
    return tuple(found)


def is_gone(error: CgpuError) -> bool:
    """Say whether a node could not be read because its container has stopped."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in GONE


def container(tree: Tree, index: str, name: str) -> Container:
    """Read one container directory. Raises CgpuError."""
    allocated = tree.read_int(index, name, "memsize")
    free, pids = memory(tree.read(index, name, "meminfo"))
    return Container(
        directory=name,
        id=(tree.read(index, name, "owner").split() or [name])[0],
        weight=tree.read_int(index, name, "weight"),
        high_prio=tree.read_int(index, name, "highprio") != 0,
        allocated=allocated,
        used=max(0, allocated - free),
        pids=pids,
        engine_time=tree.read_int(index, name, "usage"),
    )


def memory(text: str) -> tuple[int, tuple[int, ...]]:
    """Return free bytes and the processes that hold memory out of a meminfo node. Raises CgpuError."""
    free, pids = None, []
    for line in text.splitlines():
        match line.split():
            case ["Free:", size] if size.isdecimal():
                free = int(size)
            case ["PID:", pid, "Mem:", size] if pid.isdecimal() and size.isdecimal():
                pids.append(int(pid))
            case _:
                raise CgpuError(f"meminfo: {line!r}: 'Free: BYTES' or 'PID: PID Mem: BYTES' was expected")
    if free is None:
        raise CgpuError("meminfo: a line 'Free: BYTES' was expected")
    return free, tuple(pids)
