# SPDX-License-Identifier: Apache-2.0
"""OpenCGPU's own files and folders: their permissions, and what a killed installation has left."""

from __future__ import annotations

import stat
from collections.abc import Iterator

import psutil

from cgpu import paths
from cgpu.errors import CgpuError
from cgpu.install.checks.finding import Finding, ok, problem, skipped
from cgpu.install.node.report import NodeReport
from cgpu.install.places import RECORD
from cgpu.install.store import Store
from cgpu.node_files import below

# Each with the permission bits that only root may have.
PRIVATE = {
    paths.RUN: 0o077,
    paths.SHARES: 0o077,
    RECORD: 0o077,
    "/etc/cgpu": 0o022,
    paths.CONFIG: 0o022,
    paths.EFFECTIVE: 0o077,
}
ROOM = 1 << 20


def permissions(now: NodeReport) -> list[Finding]:
    """Whether only root reaches what only root may."""
    wrong = [line for path, bits in PRIVATE.items() for line in _too_open(now, path, bits)]
    if now.snapshot is not None:
        wrong += _too_open(now, f"{now.node.ours.tree}/inst_ctl", 0o077)
    if not wrong:
        return ok("permissions", "only root reaches sockets, settings and tree")
    letters = {path: "w" if bits == 0o022 else "rwx" for path, bits in PRIVATE.items()}
    fix = "; ".join(
        f"chown root:root {path}; chmod go-{letters.get(path, 'rwx')} {path}" for path, _ in wrong
    )
    return problem("permissions", "; ".join(text for _, text in wrong), fix)


def room(now: NodeReport) -> list[Finding]:
    """Whether /run takes what engine and runtime have to write."""
    try:
        left = psutil.disk_usage(str(below(now.node.root, "/run"))).free
    except OSError:
        return skipped("room", "/run cannot be looked at")
    if left < ROOM:
        return problem(
            "room", f"/run: {left} bytes are left, {ROOM} are needed", "df -h /run; remove what fills it"
        )
    return ok("room", "/run has room")


def leftovers(now: NodeReport) -> list[Finding]:
    """Whether an installation, upgrade or removal was killed in the middle."""
    if below(now.node.root, paths.UPGRADING).exists():
        text = f"{paths.UPGRADING}: cgpu_km is loaded anew, or that was ended in the middle"
        return problem("leftovers", text, "cgpu doctor --fix")
    if now.node.ours.record is None:
        return ok("leftovers", "no installation is under way")
    try:
        command = Store.load(now.node.root).command
    except CgpuError as error:
        return problem("leftovers", str(error), "cgpu support-bundle, and report it")
    if command:
        text = f"{RECORD}: cgpu {command} has not come to its end"
        fix = "cgpu install; or to take it back: cgpu uninstall" if command == "install" else "cgpu uninstall"
        return problem("leftovers", text, fix)
    return ok("leftovers", "no installation is under way")


def draining(now: NodeReport) -> list[Finding]:
    """Whether slices are refused because the node is being emptied."""
    if not below(now.node.root, paths.DRAINING).exists():
        return ok("draining", "slices are given out")
    text = f"{paths.DRAINING}: no slices are given out while OpenCGPU is removed from this node or upgraded"
    return problem(
        "draining", text, "wait for cgpu uninstall or upgrade; if nobody does that: cgpu doctor --fix"
    )


def _too_open(now: NodeReport, path: str, bits: int) -> Iterator[tuple[str, str]]:
    try:
        about = below(now.node.root, path).stat()
    except OSError:
        return
    if about.st_uid != 0 or about.st_mode & bits:
        mode = stat.S_IMODE(about.st_mode)
        yield path, f"{path}: owner {about.st_uid}, mode {mode:04o}: others than root get in"
