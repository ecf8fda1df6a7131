# SPDX-License-Identifier: Apache-2.0
"""cgpu doctor: every check a support engineer would do, each with the command that helps.

The command repairs faults without ending a container, restarting an engine, or changing a decision.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cgpu import __version__, paths
from cgpu.arguments import Parser
from cgpu.client.tree import Tree
from cgpu.errors import CgpuError, one_line
from cgpu.files import open_nofollow
from cgpu.install import drain, lock
from cgpu.install.checks import (
    DesiredState,
    configuration,
    engine,
    module,
    places,
    preflight,
    publisher,
    runtime,
    server,
    settings,
    trouble,
)
from cgpu.install.checks.configuration import differences
from cgpu.install.checks.finding import Finding, problem
from cgpu.install.checks.places import PRIVATE
from cgpu.install.commands.config import apply_keys
from cgpu.install.commands.gc import collect
from cgpu.install.commands.upgrade import module as upgrade
from cgpu.install.node import report
from cgpu.install.node.report import NodeReport
from cgpu.install.places import PUBLISHER, PUBLISHER_STARTS
from cgpu.install.privilege import require_root
from cgpu.install.runner import SystemRunner, must
from cgpu.kmod.daemon.tree.mounts import clear_fuse
from cgpu.node_files import below
from cgpu.smi import publish

EXIT_PROBLEM = 1
PUBLISHED_S = 10.0  # for the first files, which come a second after the program
POLL_S = 0.1
VERDICTS = ("problem", "warning", "ok", "skipped")
MARKS = {"ok": "ok", "warning": "warning", "problem": "PROBLEM", "skipped": "skipped"}

Check = Callable[[NodeReport], list[Finding]]

CHECKS: tuple[Check, ...] = (
    engine.running,
    engine.versions,
    engine.enforcing,
    engine.pages,
    engine.driver,
    engine.tree,
    engine.listener,
    engine.descriptor_store,
    engine.limits,
    engine.start_at_boot,
    configuration.valid,
    configuration.in_force,
    configuration.closed,
    places.permissions,
    places.room,
    places.leftovers,
    places.draining,
    lambda _: runtime.interpreter(),
    lambda _: runtime.hook(),
    lambda _: runtime.launcher(),
    lambda _: runtime.ownership(),
    server.is_heard,
    settings.registered,
    settings.default,
    settings.pod_devices,
    engine.containers,
    trouble.restarts,
    trouble.stranded,
    engine.drift,
    engine.time_division,
    engine.lost,
    engine.mig,
    publisher.published,
    module.built,
    module.dkms,
)


def parser() -> argparse.ArgumentParser:
    out = Parser(
        prog="cgpu doctor",
        description="Check this node, and say what helps. Exits 0 when there is no problem.",
        examples=("cgpu doctor", "cgpu doctor --all", "cgpu doctor --fix"),
    )
    out.add_argument("--json", action="store_true", help="one JSON document")
    out.add_argument("--all", action="store_true", help="also show what is well, and what was skipped")
    out.add_argument(
        "--fix",
        action="store_true",
        help="repair what can be repaired without stopping containers or starting an engine; check again",
    )
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command: 0 when there is no problem, else 1."""
    options = parser().parse_args(arguments)
    try:
        return _run(options)
    except CgpuError as error:
        print(f"cgpu doctor: {error}", file=sys.stderr)
        return EXIT_PROBLEM


def _run(options: argparse.Namespace) -> int:
    require_root("cgpu doctor")
    now = report.gather()
    found, fixed = examine(now), []
    if options.fix:
        for line in fix(now, found):
            fixed.append(line)
            if not options.json:
                print(f"fixed: {line}")
        if fixed:
            now = report.gather()
            found = examine(now)
    if options.json:
        print(json.dumps(document(now, found, fixed), indent=1))
    else:
        sys.stdout.write(as_text(found, everything=options.all))
    return 0 if is_good(found) else EXIT_PROBLEM


def examine(now: NodeReport) -> list[Finding]:
    """Return every finding: first of the machine, then of what OpenCGPU is on it."""
    allowed = now.wanted is None or now.wanted.allow_unknown_driver
    found = preflight(now.node, DesiredState(now.kind, (), allowed))
    if now.status is not None and now.status.get("simulate"):
        text = f"simulated cards: {now.status['simulate']}"
        found = [Finding("driver", "ok", text) if one.name == "driver" else one for one in found]
    for check in CHECKS:
        found += _run_check(check, now)
    return found


def _run_check(check: Check, now: NodeReport) -> list[Finding]:
    try:
        return check(now)
    except Exception as error:  # noqa: BLE001, one check that fails must not hide what the others find
        name = getattr(check, "__name__", "")
        text = one_line(f"the check {name} failed itself: {type(error).__name__}: {error}")
        return problem("check-failed", text, "cgpu support-bundle, and report it")


# --- what is printed ---


def is_good(found: list[Finding]) -> bool:
    """Tell whether nothing keeps sliced containers from starting, or limits from holding."""
    return all(one.verdict != "problem" for one in found)


def document(now: NodeReport, found: list[Finding], fixed: list[str]) -> dict[str, Any]:
    """Return what --json prints; docs/commands/doctor.md describes it."""
    ours = now.node.ours
    return {
        "format": "cgpu-doctor",
        "version": 1,
        "good": is_good(found),
        "commands": __version__,
        "engine": {"wanted": now.kind, "running": ours.engine, "version": ours.version, "tree": ours.tree},
        "counts": {verdict: sum(one.verdict == verdict for one in found) for verdict in VERDICTS},
        "findings": [
            {"name": one.name, "verdict": one.verdict, "text": one_line(one.text), "fix": one_line(one.fix)}
            for one in found
        ],
        "fixed": [one_line(line) for line in fixed],
    }


def as_text(found: list[Finding], *, everything: bool) -> str:
    """Return one line for each finding and one for its fix. everything: what is well, too."""
    lines = []
    width = max((len(one.name) for one in found), default=0)
    for verdict in VERDICTS:
        if verdict in ("ok", "skipped") and not everything:
            continue
        for one in (one for one in found if one.verdict == verdict):
            lines.append(f"{MARKS[verdict]:<8} {one.name:<{width}}  {one_line(one.text)}")
            if one.fix:
                lines.append(f"{'':<8} {'':<{width}}  fix: {one_line(one.fix)}")
    counts = {verdict: sum(one.verdict == verdict for one in found) for verdict in VERDICTS}
    summary = ", ".join(f"{counts[verdict]} {MARKS[verdict].lower()}" for verdict in VERDICTS)
    return "\n".join([*lines, summary]) + "\n"


# --- fixes ---


def fix(now: NodeReport, found: list[Finding]) -> Iterator[str]:
    """Fix what can be fixed, and yield a line of each: what was done, or why it was not."""
    bad = {one.name for one in found if one.verdict in ("warning", "problem")}
    for name, apply_fix in FIXES.items():
        if name not in bad:
            continue
        try:
            done = apply_fix(now)
        except (CgpuError, OSError) as error:
            done = f"not fixed: {error}"
        if done:
            yield f"{name}: {done}"


def _apply_configuration(now: NodeReport) -> str:
    """Put the file in force in the engine that runs."""
    if now.node.ours.engine is None or now.wanted is None:
        return ""
    return apply_keys(differences(now.wanted, now.in_force) if now.in_force is not None else ())


def _collect_containers(now: NodeReport) -> str:
    removed = [one.id for one in collect(Tree(now.node.ours.tree), dry_run=False).removed]
    return f"removed {', '.join(removed)}" if removed else ""


def _close_permissions(now: NodeReport) -> str:
    del now
    done = [name for name, bits in PRIVATE.items() if _close(name, bits)]
    return f"closed {', '.join(done)}" if done else ""


def _close(name: str, bits: int) -> bool:
    """Take a file or folder to root, without these bits; return whether it was otherwise."""
    try:
        # By its descriptor, and not through a link: what others could put in its place is not changed.
        fd = open_nofollow(name)
    except FileNotFoundError:
        return False
    try:
        about = os.fstat(fd)
        if about.st_uid == 0 and not about.st_mode & bits:
            return False
        os.fchown(fd, 0, 0)
        os.fchmod(fd, about.st_mode & 0o7777 & ~bits)
    finally:
        os.close(fd)
    return True


def _unmount(now: NodeReport) -> str:
    """Unmount the tree of a daemon that has ended: every access to it fails or hangs."""
    if now.node.ours.engine is not None or not now.mounted or now.node.ours.daemon_running:
        return ""
    clear_fuse(now.node.ours.tree)
    return f"unmounted {now.node.ours.tree}"


def _publish(now: NodeReport) -> str:
    """Have systemd start cgpu-smi --publish, now and whenever the configuration asks for it."""
    if not now.node.software.systemd or not publisher.has_units(now.node.root):
        return ""
    runner = SystemRunner()
    must(runner, ("systemctl", "enable", "--now", PUBLISHER_STARTS))
    must(runner, ("systemctl", "restart", PUBLISHER))
    folder = below(now.node.root, paths.PUBLISHED)
    until = time.monotonic() + PUBLISHED_S
    while publish.age(folder) is None and time.monotonic() < until:
        time.sleep(POLL_S)  # systemd has taken an old file away
    return f"started {PUBLISHER}"


def _repair(now: NodeReport) -> str:
    """Have slices given out again after a killed command, and finish a cold upgrade of the module."""
    done: list[str] = []
    with lock.held(now.node.root) as held:
        drain.clear(now.node.root, done.append)
        upgrade.finish(SystemRunner((held,)), __version__, done.append)
    return "; ".join(done)


# In this order: what a killed installation has left may be the cause of the other problems.
FIXES: dict[str, Callable[[NodeReport], str]] = {
    "leftovers": _repair,
    "draining": _repair,
    "engine": _unmount,
    "permissions": _close_permissions,
    "configuration-in-force": _apply_configuration,
    "containers": _collect_containers,
    publisher.NAME: _publish,
}
