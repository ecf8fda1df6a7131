# SPDX-License-Identifier: Apache-2.0
"""Duplicates that fail on every way, also after the driver has made them.

Books that count a call rather than what became of it drift with each failure. Nobody has reported it by
that name.
"""

from __future__ import annotations

from tests.attacks.arena import MIB, Arena, Running, Seen, Tenant
from tests.attacks.attack import assert_held, attack, await_nothing, rest
from tests.attacks.build import client

SIZE = 64 * MIB


def agreed(arena: Arena, tenant: Tenant, running: Running) -> Seen:
    """Fail unless engine and card say the same; let the program go on."""
    seen = arena.seen(tenant)
    assert seen.charged == seen.card, seen
    running.go_on()
    return seen


def duplicated(arena: Arena, *words: str) -> None:
    """Have engine and card agree after the failures, after the memory's end and after its client's."""
    tenant = arena.tenant()
    running = tenant.start(client("failed_dup"), "--dev", arena.dev, SIZE, *words)
    running.line("failed")
    assert agreed(arena, tenant, running) == Seen(SIZE, SIZE)
    assert rest(running, "freed")["status"] == 0
    agreed(arena, tenant, running)
    assert rest(running, "closed")["status"] == 0
    await_nothing(arena, tenant)
    running.finish()
    assert_held(arena, tenant)


@attack(limit=True)
def leak_after_failed_dup(arena: Arena) -> None:
    """Failed duplicates change nothing, made or not: each time engine and card say the same."""
    duplicated(arena)


@attack(limit=False)
def duplicate_below_its_memory(arena: Arena) -> None:
    """A duplicate below the memory itself, which would go with it, leaves no charge behind: it is refused."""
    duplicated(arena, "below")
