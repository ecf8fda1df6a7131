# SPDX-License-Identifier: Apache-2.0
"""The driver's open files, handed to a process that is in no slice.

Who limits a process by what is around it (variables, a library, a filter) limits nobody whom that process
sends its open files to, by a socket.
"""

from __future__ import annotations

from tests.attacks.arena import DAEMON, LIMIT, MIB, MODULE, Arena, Running, Tenant
from tests.attacks.attack import assert_held, attack, await_nothing, expect, rest
from tests.attacks.build import client
from tests.integration.probe import NO_MEMORY

PIECE = 64 * MIB
MORE = 512 * MIB
OUT = 0x80000000  # cgpu-probe's: errno says it


def hand_out(arena: Arena, tenant: Tenant) -> tuple[Running, Running, dict[str, int]]:
    """Have a slice send its files to a process outside of all; return both, and what that one took."""
    program, place = client("hand_out"), f"{arena.scratch}/handed"
    giver = tenant.start(program, "--dev", arena.dev, "give", place)
    giver.line("giving")
    taker = arena.outside(program, "--dev", arena.dev, "take", place, PIECE, MORE)
    return giver, taker, rest(taker, "took")


@attack(limit=True, engines=(MODULE,))
def files_handed_to_a_process_outside(arena: Arena) -> None:
    """A process outside can do nothing with them; the container that opened them has its slice as before."""
    tenant = arena.tenant()
    giver, taker, took = hand_out(arena, tenant)
    assert (took["bytes"], took["mapped"]) == (0, 0), took
    assert took["status"] & OUT, took
    expect(arena, tenant, 0)
    giver.finish()
    # The files are still open there, and nobody's who opened them.
    taker.go_on()
    assert rest(taker, "again")["status"] & OUT
    assert_held(arena, tenant)
    taker.finish()
    await_nothing(arena, tenant)


@attack(limit=False, engines=(DAEMON,))
def files_handed_to_a_process_that_nobody_sees(arena: Arena) -> None:
    """With cgpud a process outside takes what it likes: what shows is that the card has given more."""
    tenant = arena.tenant()
    giver, taker, took = hand_out(arena, tenant)
    assert took["bytes"] > LIMIT, took
    assert took["status"] != NO_MEMORY, took
    expect(arena, tenant, 0, card=took["bytes"])
    # What is charged to nobody is drift, and the log has the process.
    arena.until(lambda: arena.drift() == took["bytes"], "it is drift")
    arena.until(lambda: "opened in another container: they count as drift" in arena.log(), "it is said")
    giver.finish()
    taker.finish()
    await_nothing(arena, tenant)
