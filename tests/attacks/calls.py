# SPDX-License-Identifier: Apache-2.0
"""Calls that are broken off, and whose reply comes late."""

from __future__ import annotations

from tests.attacks.attack import attack, await_nothing, expect, rest
from tests.attacks.build import client, uvm_client
from tests.attacks.harness import DAEMON, LIMIT, MIB, Harness
from tests.integration.probe import NO_MEMORY

PIECE = 4 * MIB
FULL = LIMIT // PIECE * PIECE
MAPPED = 20 * MIB


# Calls that signals break off in their midst, again and again.
#
# A call that runs twice, or that runs and is told to have failed, leaves memory that only the driver knows
# of. There is no report of it; seccomp_unotify(2) names this fault of supervision.


@attack(limit=True)
def restarted_calls(harness: Harness) -> None:
    """Whether the kernel restarts the calls or the program does, each has run once, and the limit holds.

    Where the program restarts a call, the daemon cannot tell whether it has seen the answer before it was cut
    short: memory of such a call stays, and stays charged, though the program does not know it.
    """
    tenant = harness.tenant()
    for how in ("restart", "interrupt"):
        running = tenant.start(uvm_client("restarted"), "--dev", harness.dev, how, PIECE)
        told = rest(running)
        assert told["alarms"] > 0, told
        assert told["status"] == NO_MEMORY, told
        if harness.engine == DAEMON and how == "interrupt":
            seen = harness.seen(tenant)
            assert seen.charged == seen.card, seen
            assert told["bytes"] <= seen.charged <= FULL, (told, seen)
            assert FULL - told["bytes"] <= told["interrupted"] * PIECE, told
        else:
            assert told["bytes"] == FULL, told
            expect(harness, tenant, FULL)
        running.finish()
        await_nothing(harness, tenant)


@attack(limit=True, engines=(DAEMON,))
def restarted_mappings(harness: Harness) -> None:
    """Each mapping counts once, and each range is given back once, with no error told of it.

    The module does not run calls for the container.
    """
    tenant = harness.tenant()
    running = tenant.start(uvm_client("restarted"), "--dev", harness.dev, "mapping", MAPPED)
    told = rest(running)
    assert (told["ranges"], told["status"]) == (LIMIT // MAPPED, NO_MEMORY), told
    assert told["alarms"] > 0, told
    expect(harness, tenant, LIMIT // MAPPED * MAPPED)
    running.go_on()
    assert rest(running, "freed") == {"left": 0, "status": 0}
    await_nothing(harness, tenant)
    running.finish()


# A call whose answer comes when another program is in the caller's place.
#
# A program that executes another one keeps its number, also where that has more rights. A supervisor that
# writes an answer by number then writes into that program, at an address that the first one has chosen. There
# is no report of it; seccomp_unotify(2) warns of numbers that are given out again.


@attack(limit=False, engines=(DAEMON,))
def answer_meets_another_program(harness: Harness) -> None:
    """No byte of an answer reaches the program that was executed while the answer was held up.

    With the module the driver writes in the caller itself.
    """
    tenant = harness.tenant()
    running = tenant.start(client("other_program"), "--dev", harness.dev)
    assert rest(running) == {"changed": 0}
    running.finish()
    await_nothing(harness, tenant)
