# SPDX-License-Identifier: Apache-2.0
"""Calls that signals break off in their midst, again and again.

A call that runs twice, or that runs and is told to have failed, leaves memory that only the driver knows
of. Nobody has reported it; it is how supervision of system calls can go wrong, seccomp_unotify(2).
"""

from __future__ import annotations

from tests.attacks.arena import DAEMON, LIMIT, MIB, Arena
from tests.attacks.attack import attack, await_nothing, expect, rest
from tests.attacks.build import client, uvm_client
from tests.integration.probe import NO_MEMORY

PIECE = 4 * MIB
FULL = LIMIT // PIECE * PIECE
MAPPED = 20 * MIB


@attack(limit=True)
def restarted_calls(arena: Arena) -> None:
    """Whether the kernel restarts the calls or the program does, each has run once, and the limit holds.

    Where it is the program, the daemon cannot tell whether it has seen the answer of a call before it was cut
    short: what such a call made stays, and stays charged, though the program does not know it.
    """
    tenant = arena.tenant()
    for how in ("restart", "interrupt"):
        running = tenant.start(client("restarted"), "--dev", arena.dev, how, PIECE)
        told = rest(running)
        assert told["alarms"] > 0, told
        assert told["status"] == NO_MEMORY, told
        if arena.engine == DAEMON and how == "interrupt":
            seen = arena.seen(tenant)
            assert seen.charged == seen.card, seen
            assert told["bytes"] <= seen.charged <= FULL, (told, seen)
            assert FULL - told["bytes"] <= told["interrupted"] * PIECE, told
        else:
            assert told["bytes"] == FULL, told
            expect(arena, tenant, FULL)
        running.finish()
        await_nothing(arena, tenant)


@attack(limit=True, engines=(DAEMON,))
def restarted_mappings(arena: Arena) -> None:
    """Each mapping counts once, and each range is given back once, with no error told of it.

    The module does not run calls for the container.
    """
    tenant = arena.tenant()
    running = tenant.start(uvm_client("restarted_mapping"), "--dev", arena.dev, MAPPED)
    told = rest(running)
    assert (told["ranges"], told["status"]) == (LIMIT // MAPPED, NO_MEMORY), told
    assert told["alarms"] > 0, told
    expect(arena, tenant, LIMIT // MAPPED * MAPPED)
    running.go_on()
    assert rest(running, "freed") == {"left": 0, "status": 0}
    await_nothing(arena, tenant)
    running.finish()
