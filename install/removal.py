# SPDX-License-Identifier: Apache-2.0
"""The whole way back, by uninstall and by who finishes one that was killed: what must not be in the way."""

from __future__ import annotations

from collections.abc import Callable

from cgpu.errors import CgpuError
from cgpu.install import consumers as in_use
from cgpu.install import drain
from cgpu.install.transaction import execute as transaction
from cgpu.install.transaction.context import Context
from cgpu.install.transaction.journal import Journal

Say = Callable[[str], None]


def remove(record: Journal, context: Context, say: Say, drain_s: float | None = None) -> None:
    """Take everything back while no slices are given out. Raises CgpuError; they are given out again then.

    drain_s: how long to wait for the end of sliced containers; None: refuse while there are any.
    """
    engines = record.facts.get("runtimes", [])
    with drain.refusing(context.root):
        _await_none(context, say, drain_s)
        _refuse_stuck(context, engines)
        for line in in_use.lines(context.root, context.runner, engines):
            say(line)
        transaction.take_back(record, context, say)


def _await_none(context: Context, say: Say, drain_s: float | None) -> None:
    drain.check_engine(context.root, context.runner)
    if drain_s is not None:
        drain.wait(context.root, drain_s, say)
        return
    names = drain.settled(context.root)
    if names:
        raise CgpuError(f"sliced containers run: {', '.join(names)}: end them, or: cgpu uninstall --drain")


def _refuse_stuck(context: Context, engines: list[str]) -> None:
    names = in_use.stuck(context.runner, engines)
    if names:
        raise CgpuError(
            f"podman containers with the runtime cgpu run: {in_use.shown(names, ', ')}: without it "
            f"podman cannot stop them; first: podman rm -f {in_use.shown(names, ' ')}"
        )
