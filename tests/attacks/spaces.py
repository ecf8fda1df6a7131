# SPDX-License-Identifier: Apache-2.0
"""VA spaces, and what is made for them or in them."""

from __future__ import annotations

from tests.attacks.attack import assert_held, attack, await_nothing, probe, rest
from tests.attacks.build import client
from tests.attacks.harness import LIMIT, Harness, Word
from tests.integration.probe import NO_MEMORY

ROUNDS, GROUPS = 3, 3
GIB = 1 << 30


@attack(limit=False)
def groups_by_a_foreign_space(harness: Harness) -> None:
    """Groups whose space another device's group named first end with their own device, and stay charged.

    An engine that places a space by the first call that names it drops the groups with that other device.
    """
    tenant = harness.tenant()
    running = tenant.start(client("spaces"), "--dev", harness.dev, "cross", ROUNDS, GROUPS)
    made = rest(running, "made")["groups"]
    before = harness.seen(tenant).charged
    running.go_on()
    assert rest(running)["alive"] == made > 0
    assert harness.seen(tenant).charged == before > 0
    running.kill()
    running.finish()
    await_nothing(harness, tenant)
    assert_held(harness, tenant)


# Page tables. The driver takes them by itself, before it looks at the call that asks for addresses: 15.0 GB
# of a T4 by one refused call were charged to nobody.


def assert_paid(harness: Harness, *words: Word, filled: int = 0) -> None:
    """Fail unless the card gives no more than is charged, at most a slice; a neighbour has its own.

    filled: MiB of the slice that another process of the container has allocated.
    """
    tenant = harness.tenant()
    filling = tenant.start(*probe(harness, *([f"alloc={filled}M"] if filled else []), "hold"))
    filling.line("hold")
    running = tenant.start(client("spaces"), "--dev", harness.dev, *words)
    found = rest(running)
    seen = harness.seen(tenant)
    assert seen.card <= seen.charged <= LIMIT, seen
    assert found["status"] == NO_MEMORY, found
    assert_held(harness, harness.tenant(), beside=seen)
    for one in (running, filling):
        one.kill()
        one.finish()
    await_nothing(harness, tenant)


@attack(limit=True)
def addresses_beyond_the_slice(harness: Harness) -> None:
    """A reservation whose page tables are larger than the slice is refused, by each way there is."""
    for way in ("class", "fixed", "heap", "device"):
        assert_paid(harness, "reserve", way, 7 << 40, 1)


@attack(limit=True)
def addresses_by_many_reservations(harness: Harness) -> None:
    """Reservations of 8 GiB, of which each costs some 17 MB, end at the slice.

    Most of it is memory: the driver walks page tables entry by entry to free them, and waits for nobody.
    """
    assert_paid(harness, "reserve", "class", 8 * GIB, 20, filled=900)


@attack(limit=True)
def mappings_beyond_the_slice(harness: Harness) -> None:
    """A mapping that is said to be long fills the driver's pool by that length: it is refused, too."""
    assert_paid(harness, "map", 7 << 40, 2)
