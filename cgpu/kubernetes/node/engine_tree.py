# SPDX-License-Identifier: Apache-2.0
"""The engine's tree, as an agent reaches it that sees of the node's /run only the engine's own folder.

The module's tree is in any /proc. The daemon's is a mount beside that folder, made anew with each start of
the daemon: it passes a descriptor of it over its control socket, which is in the folder.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from cgpu import paths
from cgpu.client.tree import EngineDownError, Tree
from cgpu.errors import CgpuError
from cgpu.kmod.daemon import control

if TYPE_CHECKING:
    from cgpu.request.grants import Grant

NOWHERE = "/proc/self/ns"  # a folder of which no engine makes a tree


class EngineTree(Tree):
    """The tree of whichever engine runs now."""

    __slots__ = ("_fd", "_lock")

    def __init__(self) -> None:
        """Remember nothing yet. Raises OSError."""
        # One number for all of its life: threads may be about to open something below it.
        self._fd = os.open(NOWHERE, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._lock = threading.Lock()
        super().__init__(f"/proc/self/fd/{self._fd}")

    def reserve(self, share: str, grant: Grant) -> None:
        """Refuse also where the node is drained: the mark for all others lies outside of what a pod sees."""
        if os.path.exists(paths.DRAINING_HERE):
            raise CgpuError(
                f"share {share}: no slices are given out while OpenCGPU is removed from this node"
            )
        super().reserve(share, grant)

    def _join(self, parts: Sequence[str]) -> str:
        with self._lock:
            if not self.is_up():
                self._find()
        return super()._join(parts)

    def _find(self) -> None:
        if paths.is_module_loaded():
            found = os.open(paths.TREE_MODULE, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        else:
            passed = control.ask_descriptor(paths.CONTROL_SOCKET, "tree")
            if passed is None:
                return
            found = passed
        os.dup2(found, self._fd, inheritable=False)
        os.close(found)

    def _down(self) -> EngineDownError:
        # The usual words speak of files and services of this pod, not of the node.
        return EngineDownError(
            "the engine is not running on this node, so containers with a GPU slice cannot start; "
            "run there: cgpu status"
        )
