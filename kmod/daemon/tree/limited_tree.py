# SPDX-License-Identifier: Apache-2.0
"""The tree where the driver limits memory: what a write promises holds in the driver when it returns."""

from __future__ import annotations

import errno
import logging
import os
from typing import TYPE_CHECKING

from cgpu.kmod.daemon.memory_backend.driver_limits import LimitError, registered

if TYPE_CHECKING:
    from cgpu.kmod.daemon.engine import Container, Engine
    from cgpu.kmod.daemon.library import Node
    from cgpu.kmod.daemon.memory_backend.driver_limits import DriverLimits

log = logging.getLogger(__name__)

CONTROL = "/inst_ctl"


class LimitedTree:
    """Stands before an engine's tree. A write counts on the engine and in the driver, or on neither."""

    def __init__(self, engine: Engine, limits: DriverLimits) -> None:
        """Serve this engine's nodes."""
        self._engine = engine
        self._limits = limits

    def read(self, path: str, node: Node) -> bytes:
        """Return a node's text. Raises OSError."""
        container = self._container(node) if path.endswith("/meminfo") else None
        if container is not None:
            self._limits.take_figures(container)
        return self._engine.read(node)

    def write(self, path: str, node: Node, text: bytes) -> None:
        """Make one write. Raises OSError."""
        container = self._container(node) if path.endswith("/memsize") else None
        if path == CONTROL:
            self._register(node, text)
        elif container is not None:
            self._resize(node, container, text)
        else:
            self._engine.write(node, text)

    def _register(self, node: Node, text: bytes) -> None:
        words = text.decode("ascii", "replace").split()
        if not words or words[0] != "create":
            # The old form names no process, so there is no cgroup to limit.
            if text[:1].isdigit():
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            self._engine.write(node, text)
            self._limits.removed()
            return
        self._engine.write(node, text)
        names = [word.removeprefix("id=") for word in words if word.startswith("id=")]
        container = self._engine.find(names[0]) if names else None
        if container is None:
            raise OSError(errno.ESRCH, os.strerror(errno.ESRCH))
        try:
            self._limits.imposed(container)
        except LimitError as error:
            log.error("container %s: is not registered: %s", container.id, error)
            self._engine.remove(container)
            # A regular sweep may have come between and limited the cards that could be.
            self._limits.removed()
            raise OSError(error.number, os.strerror(error.number)) from error

    def _resize(self, node: Node, container: Container, text: bytes) -> None:
        self._limits.take_figures(container)
        before = self._engine.read(node)
        self._engine.write(node, text)
        try:
            self._limits.resized(container)
        except LimitError as error:
            log.error("container %s: memsize stays %s: %s", container.id, before.decode().strip(), error)
            self._engine.write(node, before)
            self._limits.take_figures(container)
            raise OSError(error.number, os.strerror(error.number)) from error

    def _container(self, node: Node) -> Container | None:
        return registered(self._engine).get((node.slot, node.generation)) if node.slot >= 0 else None
