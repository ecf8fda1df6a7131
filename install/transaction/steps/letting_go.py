# SPDX-License-Identifier: Apache-2.0
"""Waiting until a container engine has read its settings: the command for it does not wait for that."""

from __future__ import annotations

import time

from cgpu.errors import CgpuError
from cgpu.install.transaction.context import Context

# What each prints has our runtime's name in quotes while the engine knows it.
ASK = {"docker": ("docker", "info", "--format", "{{json .Runtimes}} {{json .DefaultRuntime}}")}
OURS = '"cgpu"'
DEADLINE_S = 15.0
POLL_S = 0.1
BLIND_S = 2.0  # for an engine that cannot be asked


def wait(context: Context, engine: str) -> None:
    """Wait until an engine has let go of the runtime. One that keeps it is named in a note."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        knows = _knows_ours(context, engine)
        if knows is None:
            time.sleep(BLIND_S)
            return
        if not knows:
            return
        if time.monotonic() > deadline:
            context.note(f"left to you: restart {engine}: it still has the runtime cgpu")
            return
        time.sleep(POLL_S)


def _knows_ours(context: Context, engine: str) -> bool | None:
    """Return whether the engine still knows the runtime, None where it does not answer."""
    if engine not in ASK:
        return None
    try:
        done = context.runner.run(ASK[engine])
    except CgpuError:
        return None
    return OURS in done.output if done.status == 0 else None
