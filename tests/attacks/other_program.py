# SPDX-License-Identifier: Apache-2.0
"""A call whose answer comes when another program is in the caller's place.

A program that executes another one keeps its number, also where that has more rights. Whoever writes an
answer by number then writes into that program, at an address that the first one has chosen. Nobody has
reported it; seccomp_unotify(2) warns of numbers that are given out again.
"""

from __future__ import annotations

from tests.attacks.arena import DAEMON, Arena
from tests.attacks.attack import attack, await_nothing, rest
from tests.attacks.build import client


@attack(limit=False, engines=(DAEMON,))
def answer_meets_another_program(arena: Arena) -> None:
    """No byte of an answer reaches the program that was executed while the answer was held up.

    With the module the driver writes in the caller itself.
    """
    tenant = arena.tenant()
    running = tenant.start(client("other_program"), "--dev", arena.dev)
    assert rest(running) == {"changed": 0}
    running.finish()
    await_nothing(arena, tenant)
