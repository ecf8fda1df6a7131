# SPDX-License-Identifier: Apache-2.0
"""A replay for people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cgpu.trace.kinds import Part
from cgpu.trace.show import named, outcome, result_of, status_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cgpu.trace.replay import Answer, Balance, Outcome


def answer_of(answer: Answer) -> str:
    """Return what the replay gave, in the words of the driver."""
    if answer.result < 0 or answer.status is None:
        return result_of(answer.result)
    return status_name(answer.status)


def line(answer: Answer) -> str:
    """Return one call: whether the slice lets it through, and its answers."""
    event = answer.event
    if not answer.through:
        words = f"refused by the slice: {answer_of(answer)}"
    elif answer.played is Part.PLAYED:
        words = f"let through: {answer_of(answer)}"
    else:
        words = f"let through: {answer.played.value}"
    recorded = f" (recorded {outcome(event)})" if answer.differs else ""
    return f"{event.t / 1e9:12.6f} {event.pid}/{event.tid} {named(event)}: {words}{recorded}"


def balance_line(when: str, balance: Balance) -> str:
    """Return the state of a card."""
    verdict = "agree" if balance.agrees else "DIFFER"
    taken = f"{balance.taken} bytes taken by its own count"
    return f"card {balance.card} {when}: {taken}, {balance.charged} charged: {verdict}"


def lines(done: Outcome) -> Iterator[str]:
    """Yield every call, what was not replayed, the differences, and what cards and charges say."""
    yield from (line(answer) for answer in done.answers)
    for name, count in sorted(done.not_replayed.items()):
        yield f"not replayed: {count} of {name}"
    for balance in done.peak:
        yield balance_line("at its peak", balance)
    for balance in done.end:
        yield balance_line("at the end of the trace", balance)
    for balance in done.closed:
        yield balance_line("with all files closed", balance)
    refused = sum(not answer.through for answer in done.answers)
    differ = len(done.differences)
    yield f"{len(done.answers)} calls, {refused} refused by the slice, {differ} differ{':' if differ else ''}"
    yield from (line(answer) for answer in done.differences)
