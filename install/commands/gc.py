# SPDX-License-Identifier: Apache-2.0
"""cgpu gc: registrations whose container is gone are taken out of the engine.

The command compares the engine's registrations with this machine's processes, and with the lists of
container engines.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from cgpu import paths
from cgpu.arguments import Parser
from cgpu.client.tree import MODULE, Tree
from cgpu.config import effective
from cgpu.errors import CgpuError, one_line
from cgpu.install.node import snapshot
from cgpu.install.node.report import cgroups_in_use
from cgpu.install.node.snapshot import Slice
from cgpu.install.privilege import require_root
from cgpu.kmod.daemon import control
from cgpu.run.cgroup import mounts
from cgpu.runtime_config.engines.engine import Ended, Listing
from cgpu.runtime_config.engines.registry import ENGINES

MOUNTINFO = Path("/proc/self/mountinfo")
# Inode numbers of the kernel's initial namespaces, from linux/proc_ns.h.
FIRST = {"cgroup": 0xEFFFFFFB, "pid": 0xEFFFFFFC}
MAX_GROUPS = 4096


@dataclass(frozen=True, slots=True)
class Verdict:
    """One registered container: whether it goes, and why."""

    id: str
    goes: bool
    why: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """The verdicts on all registered containers. silent: engines that did not answer, in words."""

    judged: tuple[Verdict, ...]
    silent: tuple[str, ...]

    @property
    def removed(self) -> tuple[Verdict, ...]:
        """Registrations that the command removed, or would remove."""
        return tuple(one for one in self.judged if one.goes)


def parser() -> argparse.ArgumentParser:
    out = Parser(
        prog="cgpu gc",
        description="Remove registrations whose container is gone; never one whose processes live.",
        examples=("cgpu gc --dry-run", "cgpu gc"),
    )
    out.add_argument("--dry-run", action="store_true", help="only show what would be removed")
    out.add_argument("--json", action="store_true", help="one JSON document")
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command: 0 when all engines answered, 1 after one line of error or for one that did not."""
    options = parser().parse_args(arguments)
    try:
        require_root("cgpu gc")
        outcome = collect(Tree(paths.tree(effective.load().tree)), dry_run=options.dry_run)
    except CgpuError as error:
        print(f"cgpu gc: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({"dry_run": options.dry_run, **asdict(outcome)}, indent=1))
    else:
        _print(outcome, dry_run=options.dry_run)
    return 1 if outcome.silent else 0


def _print(outcome: Outcome, *, dry_run: bool) -> None:
    for one in outcome.judged:
        done = ("would be removed" if dry_run else "removed") if one.goes else "stays"
        print(one_line(f"{one.id}: {done}: {one.why}"))
    if not outcome.judged:
        print("no container is registered")
    for line in outcome.silent:
        print(f"cgpu gc: {one_line(line)}", file=sys.stderr)


def collect(tree: Tree, *, dry_run: bool, asked: Sequence[Listing] | None = None) -> Outcome:
    """Remove the registrations whose container is gone. Raises CgpuError.

    asked: the engines to ask, by default all of this machine.
    """
    cards = snapshot.take(tree.path).cards
    registered = {one.id: one for card in cards for one in card.slices}
    if not registered:
        return Outcome((), ())
    check_view(_engine(tree))
    if asked is None:
        asked = [listing for engine in ENGINES.values() for listing in engine.listings()]
    ended, silent = _ask(asked)
    judged = []
    for one in registered.values():
        verdict = judge(one, ended, alive=_is_alive(one))
        judged.append(_remove(tree, one, verdict) if verdict.goes and not dry_run else verdict)
    return Outcome(tuple(judged), tuple(silent))


def _remove(tree: Tree, one: Slice, verdict: Verdict) -> Verdict:
    # Once more, at the last moment: a container may have been started again in its cgroup.
    if _is_alive(one):
        return Verdict(one.id, False, "it has processes again")
    try:
        tree.destroy(one.id)
    except CgpuError as error:
        return Verdict(one.id, False, str(error))
    return verdict


def judge(one: Slice, ended: dict[str, Ended], *, alive: bool) -> Verdict:
    """Decide about one container. Only one without processes goes, and none that an engine calls running."""
    if alive:
        return Verdict(one.id, False, "its processes live")
    known = {name: list_[one.id] for name, list_ in ended.items() if one.id in list_}
    running = [name for name, is_ended in known.items() if not is_ended]
    if running:
        return Verdict(one.id, False, f"{running[0]} says that it runs")
    if known:
        return Verdict(one.id, True, f"{next(iter(known))} says that it has ended")
    return Verdict(one.id, True, "no process is left and no engine knows it")


def _engine(tree: Tree) -> dict[str, object] | None:
    if tree.read("engine").startswith(MODULE + " "):
        return None
    status = control.ask(paths.CONTROL_SOCKET, {"command": "status"})
    if status is None:
        raise CgpuError(f"cgpud does not answer: {paths.daemon_command('start')}")
    return status


def _ask(asked: Sequence[Listing]) -> tuple[dict[str, Ended], list[str]]:
    ended: dict[str, Ended] = {}
    silent = []
    for listing in asked:
        try:
            ended[listing.name] = listing.ask()
        except CgpuError as error:
            silent.append(f"{listing.name}: {error}")
    return ended, silent


def _is_alive(one: Slice) -> bool:
    return is_alive(one, MOUNTINFO.read_text(), cgroups_in_use(Path("/")))


# --- whether a container has processes, by its cgroup; where that cannot be seen, it has ---


def check_view(status: dict[str, Any] | None) -> None:
    """Raise CgpuError unless we see processes and cgroups as the engine does.

    status: what cgpud says of itself; None: the kernel's engine, which sees all.
    """
    for kind, first in FIRST.items():
        ours = os.stat(f"/proc/self/ns/{kind}").st_ino
        theirs = first
        if status is not None:
            try:
                theirs = os.stat(f"/proc/{int(status['pid'])}/ns/{kind}").st_ino
            except (OSError, KeyError, ValueError) as error:
                raise CgpuError("cgpud's process cannot be looked at: run it on the host") from error
        if ours != theirs:
            raise CgpuError(f"the engine lives in another {kind} namespace: run it on the host")


def is_alive(one: Slice, mountinfo: str, running: frozenset[str]) -> bool:
    """Tell whether a container has processes. running: the cgroups of all processes."""
    if one.cgroup is None:
        return True
    if one.is_among(running):
        return True
    return any(_has_processes(path) for path in places(one.cgroup, mountinfo))


def places(group: str, mountinfo: str) -> Iterator[Path]:
    """Yield where a cgroup lies in the hierarchies that are mounted."""
    inside = PurePosixPath(group)
    for _, _, shown, at in mounts(mountinfo):
        if inside.is_relative_to(shown) and ".." not in inside.parts:
            yield at / inside.relative_to(shown)


def _has_processes(group: Path) -> bool:
    """Tell whether a group or one below it has a process. More groups than are looked at: it has."""
    folders = [group]
    for count, folder in enumerate(folders):
        if count >= MAX_GROUPS:
            return True
        try:
            if (folder / "cgroup.procs").read_text():
                return True
            folders += [entry for entry in folder.iterdir() if entry.is_dir()]
        except FileNotFoundError:
            continue
        except OSError:
            return True
    return False
