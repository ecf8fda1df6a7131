# SPDX-License-Identifier: Apache-2.0
"""Registers a container for what its bundle requests: the hook where no wrapper has written a line."""

from __future__ import annotations

from cgpu import paths
from cgpu.client.tree import Tree
from cgpu.errors import CgpuError
from cgpu.hook import log
from cgpu.hook.spec import read_spec
from cgpu.hook.state import has_name
from cgpu.request.resolve import allocate

TYPE_CHECKING = False

if TYPE_CHECKING:
    from cgpu.config.effective import Effective
    from cgpu.hook.state import State


def register(state: State, config: Effective) -> None:
    """Register a container on the GPUs that its bundle requests, or do nothing where it requests none.

    Raises CgpuError, after undoing what was done.
    """
    tree = Tree(paths.tree(config.tree))
    allocation = allocate(read_spec(state.bundle), tree, config)
    if allocation is None:
        return
    if state.pid == 0:
        raise log.LoggableError("state on standard input: pid: 0: the process of the container is needed")
    try:
        tree.register(state.id, state.pid, *allocation.line_parts())
    except CgpuError as error:
        raise log.LoggableError(str(error)) from error
    if has_name(state.bundle, state.annotations):
        from cgpu.hook import event_log

        event_log.named(state.id, state.bundle, state.annotations)
