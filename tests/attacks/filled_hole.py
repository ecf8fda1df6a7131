# SPDX-License-Identifier: Apache-2.0
"""Managed memory with a hole, and what is put into the hole.

Who gives back by the places of what UVM takes apart gives back for whatever lies there: with ranges that
cost nothing, made and freed in the hole again and again, all of a mapping's charge is gone while it is there.
"""

from __future__ import annotations

from tests.attacks.arena import LIMIT, MIB, Arena, Running, Tenant
from tests.attacks.attack import FILL, attack, await_nothing, expect, probe, rest
from tests.attacks.build import uvm_client
from tests.integration.probe import steps

MAPPED = 900 * MIB
HOLE = 64 * MIB


def has_the_rest(arena: Arena, tenant: Tenant, charged: int) -> bool:
    """Say whether just the rest of a slice can be had; fail when it is more."""
    printed = tenant.run(*probe(arena, *FILL))
    had = sum(one.number("bytes") for one in steps(printed) if one.name == "fill")
    assert had <= LIMIT - charged, printed.text
    return had == LIMIT - charged


def fill(arena: Arena, tenant: Tenant, how: str, charged: int) -> Running:
    """Have a program do so, and wait until that much is charged."""
    running = tenant.start(uvm_client("fill_hole"), "--dev", arena.dev, how, MAPPED, HOLE)
    assert rest(running, "filled")["status"] == 0
    # cgpud looks at the mappings when room is short, and some time after they are made.
    arena.until(lambda: has_the_rest(arena, tenant, charged), f"{charged} bytes are charged, and no more")
    expect(arena, tenant, charged, card=0)
    return running


@attack(limit=True)
def ranges_in_a_hole_of_managed_memory(arena: Arena) -> None:
    """Ranges of another kind come and go in a hole: what is mapped around it stays charged."""
    tenant = arena.tenant()
    running = fill(arena, tenant, "external", MAPPED - HOLE)
    running.kill()
    await_nothing(arena, tenant)


@attack(limit=True)
def managed_memory_in_a_hole_of_managed_memory(arena: Arena) -> None:
    """Another mapping lies in the hole, and what is behind it goes: nothing of that stays charged."""
    tenant = arena.tenant()
    running = fill(arena, tenant, "managed", MAPPED // 2 + HOLE)
    running.kill()
    await_nothing(arena, tenant)
