# SPDX-License-Identifier: Apache-2.0
"""What a daemon says of itself."""

from __future__ import annotations

import os
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from cgpu import __version__
from cgpu.kmod.daemon.arguments import worker_arguments
from cgpu.kmod.daemon.program import own

if TYPE_CHECKING:
    from cgpu.kmod.daemon.arguments import Arguments
    from cgpu.kmod.daemon.engine import Engine
    from cgpu.kmod.daemon.memory_backend.backend import Chosen


def report(engine: Engine, arguments: Arguments, tree_path: str, backend: Chosen) -> dict[str, Any]:
    """Return the daemon's facts, its cards and its containers."""
    gpus = [{"index": g.index, "uuid": g.uuid, "name": g.name, "memtotal": g.memtotal} for g in engine.gpus()]
    return {
        "version": __version__,
        "pid": os.getpid(),
        "tree": tree_path,
        "config": str(arguments.config),
        "simulate": arguments.simulate,
        "transient": arguments.transient,
        "arguments": worker_arguments(replace(arguments, foreground=False)),
        "program": asdict(own()),
        "gpus": gpus,
        "containers": [{"id": c.id, "pid": c.pid, "cgroup": c.cgroup} for c in engine.containers()],
        "memory_backend": {"name": backend.name, "why": backend.why},
        "engine": engine.status(),
        "time": time.time(),
    }
