# SPDX-License-Identifier: Apache-2.0
"""Taking an installation back, and repairing what a killed command has left.

An interrupted installation is taken back; an interrupted uninstallation or upgrade is finished.

Container engines are asked, with a time limit, which containers have the runtime. The answer is only printed,
but for running containers that their engine cannot stop without the runtime: those stop an uninstallation. A
silent engine stops nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from cgpu import __version__, paths
from cgpu.errors import CgpuError, one_line
from cgpu.install import drain, places
from cgpu.install.commands.upgrade import module as upgrade
from cgpu.install.transaction import execute, journal, lock
from cgpu.install.transaction.journal import CHANGING, REMOVING, Journal
from cgpu.install.transaction.runner import Runner, SystemRunner
from cgpu.install.transaction.steps import Context
from cgpu.node_files import below
from cgpu.runtime_config.engines.engine import RUNTIME_NAME as NAME
from cgpu.runtime_config.engines.engine import ContainerEngine, Run
from cgpu.runtime_config.engines.registry import ENGINES

Say = Callable[[str], None]
TIMEOUT_S = 10.0
NAMED = 20  # in a line
KEEPS = "the package has to stay as long as these: the engines call its runtime for exec, stop and rm"


def recover(root: Path = Path("/")) -> list[str]:
    """Repair what a killed `cgpu install` or `cgpu uninstall` has left; return a line for each thing done.

    Does nothing, and returns nothing, where there is nothing to repair. Waits for an installer that works.
    Raises CgpuError when something cannot be taken back; the record keeps it for another attempt.
    """
    with lock.held(root) as held:
        return repair(root, SystemRunner((held,)), ENGINES)


def is_needed(root: Path) -> bool:
    """Return whether a killed command has left work to do. Raises CgpuError for a damaged record."""
    record = journal.load(root)
    return (record is not None and is_open(record)) or below(root, paths.UPGRADING).exists()


def repair(
    root: Path,
    runner: Runner,
    engines: Mapping[str, ContainerEngine],
    say: Say = lambda _: None,
    *,
    removes: bool = True,
) -> list[str]:
    """Do the same for a caller that holds the lock. Raises CgpuError.

    removes: False leaves an interrupted uninstallation to the caller.
    """
    done: list[str] = []

    def tell(line: str) -> None:
        done.append(line)
        say(line)

    drain.clear(root, tell)
    if removes and below(root, paths.UPGRADING).exists():
        upgrade.finish(runner, __version__, tell)
    record = journal.load(root)
    if record is None:
        journal.sweep(below(root, places.RECORD))
    elif is_open(record) and (removes or record.state != REMOVING):
        _finish(record, Context(root, runner, record.store, engines), tell)
    return done


def is_open(record: Journal) -> bool:
    """Return whether a record tells of something that has not come to its end."""
    return record.state in (CHANGING, REMOVING) or len(record.steps) > record.committed


def _finish(record: Journal, context: Context, tell: Say) -> None:
    if record.state == REMOVING:
        tell("an uninstallation was interrupted: goes on with it")
        try:
            remove(record, context, tell)
        except CgpuError as error:
            raise CgpuError(f"an uninstallation was interrupted, and {error}") from error
    else:
        tell(f"an interrupted {record.operation or 'install'} is taken back")
        left = execute.roll_back(record, context, tell)
        if left:
            raise CgpuError(
                f"not all of an interrupted {record.operation} could be taken back: {'; '.join(left)}"
            )
    for note in context.notes:
        tell(note)


def remove(record: Journal, context: Context, say: Say, drain_s: float | None = None) -> None:
    """Take everything back while no slices are given out. Raises CgpuError; they are given out again then.

    drain_s: how long to wait for the end of sliced containers; None: refuse while there are any.
    """
    engines = record.facts.get("runtimes", [])
    with drain.refusing(context.root):
        _await_none(context, say, drain_s)
        for engine, names in stuck(context.runner, engines).items():
            raise CgpuError(
                f"{engine} containers with the runtime cgpu run: {shown(names, ', ')}: without it {engine} "
                f"cannot stop them; first: {engine} rm -f {shown(names, ' ')}"
            )
        for line in consumers(context.root, context.runner, engines):
            say(line)
        execute.take_back(record, context, say)


def _await_none(context: Context, say: Say, drain_s: float | None) -> None:
    drain.check_engine(context.root, context.runner)
    if drain_s is not None:
        drain.wait(context.root, drain_s, say)
        return
    names = drain.settled(context.root)
    if names:
        raise CgpuError(f"sliced containers run: {', '.join(names)}: end them, or: cgpu uninstall --drain")


def consumers(root: Path, runner: Runner, engines: Sequence[str]) -> Iterator[str]:
    """Yield a line for each engine that has such containers, and one for each that does not answer."""
    found = False
    for engine in (ENGINES[name] for name in engines if name in ENGINES):
        if not engine.consumers_advice:
            continue
        try:
            names = engine.consumers(root, _within_time(runner))
        except (CgpuError, OSError) as error:
            yield f"warning: {engine.name} does not say which containers have the runtime {NAME} ({error})"
            continue
        if names:
            found = True
            advice = engine.consumers_advice.format(names=shown(names, " "))
            yield f"warning: {engine.name}: {shown(names, ', ')} with the runtime {NAME}: {advice}"
    if found:
        yield f"warning: {KEEPS}"


def stuck(runner: Runner, engines: Sequence[str]) -> dict[str, list[str]]:
    """Return by engine the containers that run, and which the engine could not stop without the runtime."""
    found: dict[str, list[str]] = {}
    for name in engines:
        with contextlib.suppress(CgpuError, OSError):
            names = ENGINES[name].stuck(_within_time(runner)) if name in ENGINES else []
            found |= {name: names} if names else {}
    return found


def _within_time(runner: Runner) -> Run:
    return lambda words: runner.run(words, TIMEOUT_S)


def shown(names: Sequence[str], between: str) -> str:
    """Return the first names for a line."""
    more = ["..."] if len(names) > NAMED else []
    return between.join([*(one_line(name) for name in names[:NAMED]), *more])
