# SPDX-License-Identifier: Apache-2.0
"""The wrapper's server, which prepares containers so that their start runs no Python of its own."""

from __future__ import annotations

from cgpu import paths
from cgpu.install.checks.engine import listening
from cgpu.install.checks.finding import Finding, ok, skipped, warning
from cgpu.install.node.facts import files
from cgpu.install.node.report import NodeReport
from cgpu.install.places import SERVER_STARTS, has_unit

NAME = "runtime-server"
START = f"systemctl enable --now {SERVER_STARTS}"


def is_heard(now: NodeReport) -> list[Finding]:
    """Whether the socket is open by which systemd starts the server. To connect would start it."""
    if not now.node.software.systemd or not has_unit(now.node.root, SERVER_STARTS):
        return skipped(NAME, f"systemd has no {SERVER_STARTS}")
    if now.node.ours.engine is None:
        return skipped(NAME, "no engine answers")
    if paths.RUNTIME_SOCKET in listening(files.text(now.node.root, "/proc/net/unix", 1 << 24) or ""):
        return ok(NAME, f"{paths.RUNTIME_SOCKET} accepts connections")
    text = f"{paths.RUNTIME_SOCKET}: nobody listens there, so containers with slices start more slowly"
    return warning(NAME, text, START)
