# SPDX-License-Identifier: Apache-2.0
"""The driver's file that outlives the process it was opened by.

The driver frees with the last close; who gives back with the end of the process that allocated gives away
what is taken. Others met the opposite, memory that stays after its process:
https://github.com/NVIDIA/gpu-operator/issues/2880, https://github.com/vllm-project/vllm-omni/issues/2317.
"""

from __future__ import annotations

from tests.attacks.arena import LIMIT, MIB, Arena, Running, Seen, Tenant
from tests.attacks.attack import FILL, attack, await_nothing, expect, probe, rest
from tests.attacks.build import client
from tests.integration.probe import steps

PIECE = 8 * MIB
ALL = LIMIT // PIECE * PIECE


def keep(arena: Arena, tenant: Tenant, how: str) -> Running:
    """Have a slice filled by a process that ends, with a file that stays."""
    running = tenant.start(client("keep_descriptor"), "--dev", arena.dev, how, PIECE)
    told = rest(running, "keeping")
    assert told["bytes"] == ALL, told
    return running


def assert_full(arena: Arena, tenant: Tenant) -> None:
    """Fail unless nothing more can be had than what is left, and all that is kept is charged."""
    expect(arena, tenant, ALL)
    printed = tenant.run(*probe(arena, *FILL))
    had = sum(one.number("bytes") for one in steps(printed) if one.name == "fill")
    assert had == LIMIT - ALL, printed.text
    expect(arena, tenant, ALL)


@attack(limit=True)
def descriptor_of_a_helper(arena: Arena) -> None:
    """A child in a session of its own has the file: all stays charged until it ends."""
    tenant = arena.tenant()
    helper = keep(arena, tenant, "helper")
    assert_full(arena, tenant)
    helper.finish()
    await_nothing(arena, tenant)


@attack(limit=True)
def descriptor_in_flight(arena: Arena) -> None:
    """The file lies in a socket, and no process has it: all stays charged; who receives it can free by it."""
    tenant = arena.tenant()
    helper = keep(arena, tenant, "parked")
    assert_full(arena, tenant)
    helper.go_on()
    assert rest(helper, "fetched")["status"] == 0
    arena.until(lambda: arena.seen(tenant) == Seen(ALL - PIECE, ALL - PIECE), "one piece is given back")
    helper.finish()
    await_nothing(arena, tenant)


@attack(limit=True)
def descriptor_in_a_cycle(arena: Arena) -> None:
    """The file lies in a socket that lies in itself: when the kernel has found that, nothing is charged."""
    tenant = arena.tenant()
    nobody = keep(arena, tenant, "cycle")
    assert_full(arena, tenant)
    nobody.go_on()
    nobody.finish()
    await_nothing(arena, tenant)
