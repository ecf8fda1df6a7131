# SPDX-License-Identifier: Apache-2.0
"""Why the engine refused a registration: its errno and what the tree says, as one line."""

from __future__ import annotations

import errno

from cgpu.client.directory import directory_of
from cgpu.client.reservations import places, promised
from cgpu.errors import CgpuError, show

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cgpu.client.tree import Tree
    from cgpu.request.grants import Grant

MIB = 1 << 20
FREE_ONE = "request less, or stop a container (cgpu-smi lists them)"


def explain(
    tree: Tree,
    container: str,
    pid: int,
    grants: Sequence[Grant],
    passthrough: Sequence[int],
    error: OSError,
) -> str:
    """Return the message for an errno of a create. Never raises: figures that cannot be read are left out."""
    gpus = [*(gpu for gpu, _, _, _ in grants), *passthrough]
    why = first(from_figures(tree, container, grants, passthrough, error.errno or 0))
    return f"container {container}: " + (why or general(tree, pid, gpus, error))


def first(reasons: Iterator[str | None]) -> str | None:
    """Return the first reason that explains something; None where the tree cannot be read."""
    try:
        return next(filter(None, reasons), None)
    except CgpuError:
        return None


def from_figures(
    tree: Tree, container: str, grants: Sequence[Grant], passthrough: Sequence[int], number: int
) -> Iterator[str | None]:
    """Yield what the figures of the tree say of an errno; None for a GPU of which they explain nothing."""
    reasons: dict[int, Callable[[int, int, int], str | None]] = {
        errno.ENOMEM: lambda gpu, size, _: _no_memory(tree, gpu, size),
        errno.EOPNOTSUPP: lambda gpu, _, __: mig_line(gpu) if tree.read_int(str(gpu), "mig") else None,
        errno.EIO: lambda gpu, _, __: lost_line(gpu) if tree.gpu_stat(gpu).lost else None,
        errno.EDQUOT: lambda gpu, _, weight: _no_weight(tree, gpu, weight),
        errno.ENOSPC: lambda gpu, _, __: _no_place(tree, gpu),
    }
    if number in reasons:
        yield from (reasons[number](gpu, size, weight) for gpu, size, weight, _ in grants)
    if number == errno.ENOMEM:
        yield from (_has_slices(tree, gpu) for gpu in passthrough)
    elif number == errno.EEXIST:
        yield from (taken_by(tree, gpu.index, container) for gpu in tree.gpus())
    elif number == errno.ENOENT:
        known = tree.gpus()
        present = [gpu.index for gpu in known]
        listed = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in known) or "none"
        for gpu in (*(gpu for gpu, _, _, _ in grants), *passthrough):
            if gpu not in present:
                yield f"no GPU {gpu} here; available: {listed}"


def _no_memory(tree: Tree, gpu: int, size: int) -> str | None:
    name = str(gpu)
    whole = tree.read_int(name, "natives")
    if whole:
        return f"GPU {gpu} cannot be sliced: {_containers(whole)} it whole; stop it, or name another GPU"
    total = tree.read_int(name, "memtotal")
    slices = {other: tree.read_int(name, other, "memsize") for other in tree.containers(gpu)}
    left = max(total - promised(slices, tree.reserved(gpu)), 0)
    if size <= left:
        return None
    return f"GPU {gpu} has {mib(left)} of {mib(total)} left, and {mib(size)} were requested; {FREE_ONE}"


def _has_slices(tree: Tree, gpu: int) -> str | None:
    count = len(tree.containers(gpu))
    reserved = len(tree.reserved(gpu))
    if not count and not reserved:
        return None
    why = f"{_containers(count)} slices of it" if count else f"{reserved} of its places are reserved"
    return f"GPU {gpu} cannot be given whole (native): {why}; request a slice, or name another GPU"


def _containers(count: int) -> str:
    return "1 container has" if count == 1 else f"{count} containers have"


def mig_line(gpus: object) -> str:
    """Return what to do about GPUs in MIG mode."""
    return (
        f"GPU {gpus} is in MIG mode and cannot be sliced; name another, or switch MIG off (nvidia-smi -mig 0)"
    )


def lost_line(gpu: int) -> str:
    """Return what to do about a GPU that the driver has lost."""
    return (
        f"GPU {gpu} is lost: the driver no longer reaches it (the lines of NVRM in dmesg say why); name "
        "another, or restart the machine"
    )


def _no_weight(tree: Tree, gpu: int, weight: int) -> str | None:
    left = tree.read_int(str(gpu), "free_weight")
    if weight <= left:
        return None
    most = tree.read_int(str(gpu), "max_inst")
    return f"GPU {gpu} has weight {left} of {most} (max_inst) left, and {weight} was requested; {FREE_ONE}"


def _no_place(tree: Tree, gpu: int) -> str | None:
    most = tree.read_int(str(gpu), "max_inst")
    containers = tree.containers(gpu)
    taken = places(containers, tree.reserved(gpu))
    if taken < most:
        return None
    beside = f" and {taken - len(containers)} reserved places" if taken > len(containers) else ""
    return (
        f"GPU {gpu} has {len(containers)} containers{beside}, expected at most {most} (max_inst); stop one, "
        "or raise max_inst"
    )


def taken_by(tree: Tree, gpu: int, container: str) -> str | None:
    """Return who has an id, or its directory, on a GPU; None where nobody does."""
    directory = directory_of(container)
    if directory not in tree.containers(gpu):
        return None
    owner = tree.read(str(gpu), directory, "owner").split(maxsplit=1)[:1]
    if owner == [container]:
        return f"this id is already registered on GPU {gpu}; a container is registered once"
    name = f"container {show(owner[0])}" if owner else "another container"
    return (
        f"{name} has the same first 12 characters, {directory}, on GPU {gpu}; start this one under a new id"
    )


def general(tree: Tree, pid: int, named: Sequence[int], error: OSError) -> str:
    """Return what an errno means where the tree's figures do not say why."""
    gpus = ", ".join(map(str, named))
    texts = {
        errno.ENOMEM: f"GPU {gpus}: less memory is left than was requested; {FREE_ONE}",
        errno.EDQUOT: f"GPU {gpus}: less weight is left than was requested; {FREE_ONE}",
        errno.ENOSPC: f"GPU {gpus} has as many containers as max_inst allows; stop one, or raise max_inst",
        errno.EEXIST: "this id, or one with the same first 12 characters, is already registered",
        errno.ESRCH: f"there is no process {pid}: it ended before it could be registered",
        errno.EBUSY: f"GPU {gpus} cannot take a container now (the engine is busy); start it again",
        errno.ENOENT: f"no GPU {gpus} here; cgpu-smi lists those that there are",
        errno.EINVAL: f"the engine does not accept pid {pid} and GPU {gpus}: see its log",
        errno.EOPNOTSUPP: mig_line(gpus),
        errno.EIO: "the NVIDIA driver does not answer, or refused a limit: see the engine's log",
        errno.EPROTO: "limits cannot be enforced on the loaded NVIDIA driver: see the engine's log (dmesg)",
        errno.EACCES: "only root of the host may register containers",
        errno.EPERM: "only root of the host may register containers",
    }
    return texts.get(error.errno or 0, f"the engine at {tree.path} refused: {error.strerror}")


def mib(size: int) -> str:
    """Return bytes in MiB."""
    return f"{size // MIB} MiB"
