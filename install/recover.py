# SPDX-License-Identifier: Apache-2.0
"""What a killed installer has left: an installation is taken back, an uninstallation is finished."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from cgpu import __version__, paths
from cgpu.errors import CgpuError
from cgpu.install import drain, places, removal
from cgpu.install.transaction import execute as transaction
from cgpu.install.transaction import journal, lock
from cgpu.install.transaction.context import Context
from cgpu.install.transaction.journal import CHANGING, REMOVING, Journal
from cgpu.install.transaction.runner import Runner, SystemRunner
from cgpu.roots import below
from cgpu.runtime_config.editor import Editor

Say = Callable[[str], None]


def recover(root: Path = Path("/")) -> list[str]:
    """Repair what a killed `cgpu install` or `cgpu uninstall` has left; return a line for each thing done.

    Does nothing, and returns nothing, where there is nothing to repair. Waits for an installer that works.
    Raises CgpuError when something cannot be taken back; the record keeps it for another attempt.
    """
    from cgpu.runtime_config.editors import EDITORS

    with lock.held(root) as held:
        return mend(root, SystemRunner((held,)), EDITORS)


def is_needed(root: Path) -> bool:
    """Return whether something killed has left something. Raises CgpuError for a damaged record."""
    record = journal.load(root)
    return (record is not None and is_open(record)) or below(root, paths.UPGRADING).exists()


def mend(
    root: Path,
    runner: Runner,
    editors: Mapping[str, Editor],
    say: Say = lambda _: None,
    *,
    removes: bool = True,
) -> list[str]:
    """Do the same for who has the lock. Raises CgpuError.

    removes: False leaves an interrupted uninstallation to the caller.
    """
    done: list[str] = []

    def tell(line: str) -> None:
        done.append(line)
        say(line)

    drain.clear(root, tell)
    if removes:
        _finish_upgrade(root, runner, tell)
    record = journal.load(root)
    if record is None:
        journal.sweep(below(root, places.RECORD))
    elif is_open(record) and (removes or record.state != REMOVING):
        _finish(record, Context(root, runner, record.store, editors), tell)
    return done


def _finish_upgrade(root: Path, runner: Runner, tell: Say) -> None:
    if not below(root, paths.UPGRADING).exists():
        return
    from cgpu.install.commands.upgrade import module as upgrade_module

    upgrade_module.finish(runner, __version__, tell)


def is_open(record: Journal) -> bool:
    """Return whether a record tells of something that has not come to its end."""
    return record.state in (CHANGING, REMOVING) or len(record.steps) > record.committed


def _finish(record: Journal, context: Context, tell: Say) -> None:
    if record.state == REMOVING:
        tell("an uninstallation was interrupted: goes on with it")
        try:
            removal.remove(record, context, tell)
        except CgpuError as error:
            raise CgpuError(f"an uninstallation was interrupted, and {error}") from error
    else:
        tell(f"an interrupted {record.operation or 'install'} is taken back")
        left = transaction.roll_back(record, context, tell)
        if left:
            raise CgpuError(
                f"not all of an interrupted {record.operation} could be taken back: {'; '.join(left)}"
            )
    for note in context.notes:
        tell(note)
