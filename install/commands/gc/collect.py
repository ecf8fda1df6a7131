# SPDX-License-Identifier: Apache-2.0
"""Compares what the engine has registered with what the container engines have, and removes what is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cgpu import paths
from cgpu.client.tree import MODULE, Tree
from cgpu.errors import CgpuError
from cgpu.install.commands.gc import processes
from cgpu.install.commands.gc.sources import Said, Source, sources
from cgpu.install.node import snapshot
from cgpu.install.node.report import cgroups_in_use
from cgpu.install.node.snapshot import Slice, Snapshot
from cgpu.kmod.daemon import control

MOUNTINFO = Path("/proc/self/mountinfo")


@dataclass(frozen=True, slots=True)
class Judged:
    """One registered container: whether it goes, and why."""

    id: str
    goes: bool
    why: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of all of them. silent: engines that did not answer, in words."""

    judged: tuple[Judged, ...]
    silent: tuple[str, ...]

    @property
    def removed(self) -> tuple[Judged, ...]:
        """Those that were removed, or would be."""
        return tuple(one for one in self.judged if one.goes)


def collect(tree: Tree, *, dry_run: bool, asked: Sequence[Source] | None = None) -> Outcome:
    """Remove the registrations whose container is gone. Raises CgpuError.

    asked: the engines to ask, by default all of this machine.
    """
    registered = _registered(snapshot.take(tree.path))
    if not registered:
        return Outcome((), ())
    processes.check_view(_engine(tree))
    said, silent = _ask(sources() if asked is None else asked)
    judged = []
    for one in registered:
        verdict = judge(one, said, silent, alive=_is_alive(one))
        judged.append(_remove(tree, one, verdict) if verdict.goes and not dry_run else verdict)
    return Outcome(tuple(judged), tuple(silent))


def _remove(tree: Tree, one: Slice, verdict: Judged) -> Judged:
    # Once more, at the last moment: a container may have been started again by its name.
    if _is_alive(one):
        return Judged(one.id, False, "it has processes again")
    try:
        tree.destroy(one.id)
    except CgpuError as error:
        return Judged(one.id, False, str(error))
    return verdict


def judge(one: Slice, said: dict[str, Said], silent: Sequence[str], *, alive: bool) -> Judged:
    """Decide about one container. Only one without processes goes, and none that an engine calls running."""
    if alive:
        return Judged(one.id, False, "its processes live")
    known = {name: state for name, list_ in said.items() if (state := _state(one, list_)) is not None}
    running = [name for name, ended in known.items() if not ended]
    if running:
        return Judged(one.id, False, f"{running[0]} says that it runs")
    if one.cgroup is None and silent:
        return Judged(one.id, False, f"no process is known, and not every engine answers: {silent[0]}")
    if known:
        return Judged(one.id, True, f"{next(iter(known))} says that it has ended")
    return Judged(one.id, True, "no process is left and no engine knows it")


def _state(one: Slice, said: Said) -> bool | None:
    """Return whether an engine says it has ended; None where the engine does not know it."""
    if one.id in said:
        return said[one.id]
    # The old form of registration knows only the first 12 characters.
    ended = [state for id_, state in said.items() if len(id_) == 64 and id_[:12] == one.id]
    return all(ended) if ended else None


def _registered(found: Snapshot) -> list[Slice]:
    """Return each registered container once."""
    return list({one.id: one for card in found.cards for one in card.slices}.values())


def _engine(tree: Tree) -> dict[str, object] | None:
    if tree.read("engine").startswith(MODULE + " "):
        return None
    status = control.ask(paths.CONTROL_SOCKET, {"command": "status"})
    if status is None:
        raise CgpuError(f"cgpud does not answer: {paths.daemon_command('start')}")
    return status


def _ask(asked: Sequence[Source]) -> tuple[dict[str, Said], list[str]]:
    said: dict[str, Said] = {}
    silent = []
    for source in asked:
        try:
            said[source.name] = source.ask()
        except CgpuError as error:
            silent.append(f"{source.name}: {error}")
    return said, silent


def _is_alive(one: Slice) -> bool:
    return processes.is_alive(one, MOUNTINFO.read_text(), cgroups_in_use(Path("/")))
