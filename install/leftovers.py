# SPDX-License-Identifier: Apache-2.0
"""Leftovers of a killed command: the mark of a drained node, and a module that was to be loaded anew.

An installation or removal that was killed leaves nothing to repair: the same command goes on with it.
"""

from __future__ import annotations

from pathlib import Path

from cgpu import __version__, paths
from cgpu.install import drain, lock
from cgpu.install.commands.upgrade import module
from cgpu.install.drain import Say
from cgpu.install.runner import Runner, SystemRunner
from cgpu.node_files import below


def repair(root: Path, runner: Runner, say: Say) -> None:
    """Have slices given out again, and finish a cold upgrade of the module. The caller has the lock.

    Raises CgpuError; another attempt may do it.
    """
    drain.clear(root, say)
    if below(root, paths.UPGRADING).exists():
        module.finish(runner, __version__, say)


def repair_alone(root: Path) -> list[str]:
    """Do the same after waiting for an installer that works; return a line for each thing done."""
    done: list[str] = []
    with lock.held(root) as held:
        repair(root, SystemRunner((held,)), done.append)
    return done
