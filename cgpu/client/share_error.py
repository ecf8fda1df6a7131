# SPDX-License-Identifier: Apache-2.0
"""Why the engine refused to reserve, to release, or to register a container by its shares, as one line."""

from __future__ import annotations

import errno

from cgpu.client.registration_error import first, from_figures, general, lost_line, mib, mig_line, taken_by

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cgpu.client.tree import Tree
    from cgpu.request.grants import Grant


def explain_create(tree: Tree, container: str, pid: int, shares: Sequence[str], error: OSError) -> str:
    """Return the message for an errno of a create by shares. Never raises."""
    number = error.errno or 0
    named = ", ".join(shares)
    texts = {
        errno.ENOENT: f"share {named} is not reserved on this node; reserve it before the container starts",
        errno.EBUSY: f"a container uses share {named} already; end that one first",
        errno.ENOSPC: "the engine has no place for another container; stop one (cgpu-smi lists them)",
        errno.ENOMEM: f"what share {named} was promised is not there: removed containers have passed their "
        "memory on, and others hold it; the engine's log names them; start it again when they have ended",
        errno.EINVAL: f"the engine does not accept share {named}: see its log",
    }
    why = first(_of_create(tree, container, shares, number)) or texts.get(number)
    return f"container {container}: " + (why or general(tree, pid, (), error))


def explain_reserve(tree: Tree, share: str, grant: Grant, error: OSError) -> str:
    """Return the message for an errno of a reserve. Never raises."""
    number = error.errno or 0
    texts = {
        errno.EEXIST: "it is reserved already, with other values; release it first",
        errno.EINVAL: f"the engine does not accept {':'.join(map(str, grant))} (GPU:BYTES:WEIGHT:PRIORITY)",
    }
    why = first(_of_reserve(tree, share, grant, number)) or texts.get(number)
    return f"share {share}: " + (why or general(tree, 0, [grant[0]], error))


def explain_release(tree: Tree, share: str, error: OSError) -> str:
    """Return the message for an errno of a release. Never raises."""
    why = first(_used(tree, [share])) if error.errno == errno.EBUSY else None
    return f"share {share}: " + (why or f"it was not released ({error.strerror}); see the engine's log")


def _of_create(tree: Tree, container: str, shares: Sequence[str], number: int) -> Iterator[str | None]:
    if number == errno.ENOENT:
        known = {one.share for gpu in tree.gpus() for one in tree.reserved(gpu.index)}
        yield from (
            f"share {share} is not reserved on this node; reserve it before the container starts"
            for share in shares
            if share not in known
        )
    elif number == errno.EBUSY:
        yield from _used(tree, shares)
    elif number == errno.EEXIST:
        yield from (taken_by(tree, gpu.index, container) for gpu in tree.gpus())
    elif number == errno.EOPNOTSUPP:
        yield from (_in_mig_mode(tree, gpu.index, shares) for gpu in tree.gpus())
    elif number == errno.EIO:
        yield from (_lost(tree, gpu.index, shares) for gpu in tree.gpus())


def _of_reserve(tree: Tree, share: str, grant: Grant, number: int) -> Iterator[str | None]:
    if number == errno.EEXIST:
        yield from (_reserved_already(tree, gpu.index, share) for gpu in tree.gpus())
    else:
        yield from from_figures(tree, share, [grant], (), number)


def _used(tree: Tree, shares: Sequence[str]) -> Iterator[str]:
    for gpu in tree.gpus():
        for one in tree.reserved(gpu.index):
            if one.share in shares and one.container is not None:
                yield f"container {one.container} uses share {one.share} of GPU {gpu.index}; end it first"


def _is_named(tree: Tree, gpu: int, shares: Sequence[str]) -> bool:
    return any(one.share in shares for one in tree.reserved(gpu))


def _in_mig_mode(tree: Tree, gpu: int, shares: Sequence[str]) -> str | None:
    return mig_line(gpu) if _is_named(tree, gpu, shares) and tree.read_int(str(gpu), "mig") else None


def _lost(tree: Tree, gpu: int, shares: Sequence[str]) -> str | None:
    return lost_line(gpu) if _is_named(tree, gpu, shares) and tree.gpu_stat(gpu).lost else None


def _reserved_already(tree: Tree, gpu: int, share: str) -> str | None:
    for one in tree.reserved(gpu):
        if one.share == share:
            return (
                f"it is reserved already: {mib(one.bytes)} ({one.bytes} bytes) of GPU {gpu}, weight "
                f"{one.weight}, priority {one.highprio}; release it first"
            )
    return None
