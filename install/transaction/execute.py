# SPDX-License-Identifier: Apache-2.0
"""Steps taken all or not at all.

Each is in the record, on the disk, before it is taken. A failure takes back those of this transaction, last
first. What a killed process leaves is taken back by the next one (recover.py): it cannot know how far the
last step came, and need not, since taking back is right for a step that was done, half done, or not begun.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cgpu.errors import CgpuError
from cgpu.install.transaction import journal as journals
from cgpu.install.transaction import signals
from cgpu.install.transaction.journal import CHANGING, INSTALLED, REMOVING, Journal
from cgpu.install.transaction.steps import Context, Plan
from cgpu.install.transaction.steps.system import Note

Say = Callable[[str], None]


def run(
    journal: Journal,
    context: Context,
    operation: str,
    plans: Sequence[Plan],
    facts: Mapping[str, Any],
    say: Say,
) -> None:
    """Take all steps, or none of them. Raises CgpuError after taking back what was done."""
    journal.state, journal.operation = CHANGING, operation
    total = sum(1 for plan in plans if plan.title)
    number = 0
    try:
        journal.save()
        for plan in plans:
            if plan.title:
                number += 1
                say(f"[{number}/{total}] {plan.title}")
            step = plan.prepare(context)
            journal.steps.append(step)
            journal.save()
            step.apply(context)
        _commit(journal, facts)
    except BaseException as error:
        say(f"failed: {_words(error)}")
        _forget_notes(journal, context)
        left = roll_back(journal, context, say)
        for note in context.notes:
            say(note)
        if left:
            raise CgpuError(
                f"{_words(error)}; not all could be taken back: {'; '.join(left)}; see: cgpu doctor"
            ) from error
        if isinstance(error, OSError):
            raise CgpuError(f"{_words(error)}; everything is as before") from error
        raise


def roll_back(journal: Journal, context: Context, say: Say) -> list[str]:
    """Take back the steps of the transaction that did not come to its end; return a line for each that stays.

    One that fails keeps no other from being taken back, and stays in the record for another attempt. No
    signal that a person sends ends it.
    """
    with signals.ignored():
        return _roll_back(journal, context, say)


def _roll_back(journal: Journal, context: Context, say: Say) -> list[str]:
    left: list[str] = []
    for index in range(len(journal.steps) - 1, journal.committed - 1, -1):
        step = journal.steps[index]
        if step.undo_title:
            say(f"takes back: {step.undo_title}")
        try:
            step.revert(context)
        except (CgpuError, OSError) as error:
            left.append(_words(error))
            continue
        del journal.steps[index]
        # A disk without room must not keep files from being put back: taking back twice does no harm.
        with contextlib.suppress(OSError):
            journal.save()
    if left:
        return left
    journal.state = INSTALLED
    try:
        _end(journal)
    except OSError as error:
        left.append(_words(error))
    return left


def take_back(journal: Journal, context: Context, say: Say) -> None:
    """Take back everything, last first, and end the record. Raises CgpuError; the next attempt goes on."""
    try:
        journal.state, journal.operation = REMOVING, "uninstall"
        journal.save()
        total = sum(1 for step in journal.steps if step.undo_title)
        number = 0
        while journal.steps:
            step = journal.steps[-1]
            if step.undo_title:
                number += 1
                say(f"[{number}/{total}] {step.announced(context)}")
            step.revert(context)
            journal.steps.pop()
            journal.committed = min(journal.committed, len(journal.steps))
            journal.save()
        _end(journal)
    except OSError as error:
        raise CgpuError(f"{_words(error)}; run the same command again") from error


def _forget_notes(journal: Journal, context: Context) -> None:
    """Forget what would be left to the user: he has done nothing of it yet."""
    context.notes.clear()
    begun = journal.steps[journal.committed :]
    journal.steps[journal.committed :] = [step for step in begun if not isinstance(step, Note)]


def _commit(journal: Journal, facts: Mapping[str, Any]) -> None:
    before = (journal.state, journal.committed, dict(journal.facts))
    journal.committed, journal.state = len(journal.steps), INSTALLED
    journal.facts.update(facts)
    try:
        _end(journal)
    except BaseException:
        journal.state, journal.committed, journal.facts = before
        raise


def _end(journal: Journal) -> None:
    """Save a record at rest, or remove it when it holds nothing. Raises OSError."""
    journals.clear_staging(journal.staging)
    if journal.steps:
        journal.save()
    else:
        journal.delete()


def _words(error: BaseException) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or journals.NAME}: {error.strerror or error}"
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    return str(error) or type(error).__name__
