# SPDX-License-Identifier: Apache-2.0
"""Processes that start processes, each with many clients, all of which want memory at once.

Each process in itself is below the limit; the books of a library are torn by so many. Users of HAMi-core:
https://github.com/Project-HAMi/HAMi-core/issues/241; limits per process rather than per container:
https://github.com/Project-HAMi/HAMi/issues/2125.
"""

from __future__ import annotations

from tests.attacks.arena import LIMIT, MIB, Arena, Seen
from tests.attacks.attack import FILL, attack, await_nothing, filled, probe, rest
from tests.attacks.build import client

DEPTH, CLIENTS = 4, 8
PROCESSES = 2 ** (DEPTH + 1) - 1
PIECE = 8 * MIB
ALL = LIMIT // PIECE * PIECE


@attack(limit=True)
def fork_bomb(arena: Arena) -> None:
    """All of them get the slice together; a neighbour gets its own to the byte; nothing is left of them."""
    tenant, neighbour = arena.tenant(), arena.tenant()
    bomb = tenant.start(client("bomb"), "--dev", arena.dev, DEPTH, CLIENTS, PIECE)
    told = rest(bomb)
    assert (told["processes"], told["bytes"]) == (PROCESSES, ALL), told
    assert filled(neighbour.run(*probe(arena, *FILL))) == LIMIT
    arena.until(lambda: arena.seen(neighbour).charged == 0, "the neighbour has given back its own")
    seen = arena.seen(tenant)
    assert seen == Seen(ALL, ALL), seen
    bomb.kill()
    await_nothing(arena, tenant)
