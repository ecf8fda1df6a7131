# SPDX-License-Identifier: Apache-2.0
"""Processes that are killed in the midst of their calls.

Where a library keeps the books, what a killed process held stays on them, or its end takes too much off.
Users of HAMi-core: https://github.com/Project-HAMi/HAMi-core/issues/191,
https://github.com/Project-HAMi/HAMi-core/issues/241; of nvshare:
https://github.com/grgalex/nvshare/issues/23.
"""

from __future__ import annotations

from tests.attacks.arena import Arena
from tests.attacks.attack import assert_held, attack, await_nothing
from tests.attacks.build import client

ROUNDS = 3


@attack(limit=True)
def leak_after_kill(arena: Arena) -> None:
    """Card and charges are at nothing after each kill, and the slice can be had again to the byte."""
    tenant = arena.tenant()
    for _ in range(ROUNDS):
        running = tenant.start(client("churn"), "--dev", arena.dev)
        running.line("churning")
        running.kill()
        running.finish()
        await_nothing(arena, tenant)
    assert_held(arena, tenant)
