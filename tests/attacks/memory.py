# SPDX-License-Identifier: Apache-2.0
"""Memory in all its forms, and memory that is left over."""

from __future__ import annotations

from tests.attacks.attack import FILL, assert_held, attack, await_nothing, expect, filled, probe, rest
from tests.attacks.build import client
from tests.attacks.harness import LIMIT, MIB, Harness, Running, Seen, Tenant
from tests.integration.probe import NO_MEMORY, steps

FORMS = (
    ("via=rm64", "handles=own"),
    ("via=rm64", "handles=auto"),
    ("via=rm21", "handles=own"),
    ("via=heap", "handles=auto"),
    ("via=rm64", "handles=own", "xfer"),
    ("via=heap", "handles=own", "xfer"),
)
SIZES = ("2M:2m", "2M:64k", "3M:2m", "64K:64k")
ROUNDED = 2 * MIB + 2 * MIB + 4 * MIB + (64 << 10)
PIECE = 300 * MIB
EXPORT = (f"alloc={PIECE}", "export", "free")
# The last one is held by two imports alone.
WORDS = (*EXPORT, *EXPORT, *EXPORT, "import", "import", "close-export")
ROUNDS = 3
SIZE = 64 * MIB


# Memory by every form that the driver has for it, in small objects that only duplicates hold.
#
# CUDA's VMM has it so. cuMemCreate and its kin are not counted, or crash, where each form has to be known to
# a library: https://github.com/Project-HAMi/HAMi-core/pull/128,
# https://github.com/Project-HAMi/HAMi-core/issues/187, https://github.com/Project-HAMi/HAMi-core/issues/79.


def words() -> list[str]:
    """Return the probe's words: each object is duplicated, and its first handle given back."""
    found: list[str] = []
    for form in FORMS:
        found += [*form]
        for size in SIZES:
            # Handles so far are duplicates alone, so the object is the one after them.
            found += [f"alloc={size}", "dup", f"free={found.count('dup')}"]
        found.append("xfer=off")
    return found


@attack(limit=True)
def memory_objects(harness: Harness) -> None:
    """All forms together get the slice to the byte, and duplicates keep what they hold charged, once."""
    tenant = harness.tenant()
    running = tenant.start(*probe(harness, *words(), "hold"))
    running.line("hold")
    expect(harness, tenant, len(FORMS) * ROUNDED)
    running.kill()
    running.finish()
    await_nothing(harness, tenant)
    running = tenant.start(*probe(harness, *words(), *FILL, "hold"))
    running.line("hold")
    expect(harness, tenant, LIMIT)
    printed = running.finish()
    had = [one.number("status") for one in steps(printed) if one.name in {"alloc", "dup", "free"}]
    assert set(had) == {0}, printed.text
    assert [one.number("status") for one in steps(printed) if one.name == "fill"][-1] == NO_MEMORY
    await_nothing(harness, tenant)


# Memory that left by a descriptor, and whose handles are given back.
#
# CUDA has it so for cuMemExportToShareableHandle. The driver keeps such memory until the last close of the
# file; a tool that counts handles counts nothing any more:
# https://github.com/Project-HAMi/HAMi-core/issues/79.


@attack(limit=True)
def exported_memory(harness: Harness) -> None:
    """Exported, freed and imported again, it is charged once, and the slice is had to the byte."""
    tenant = harness.tenant()
    running = tenant.start(*probe(harness, *WORDS, *FILL, "hold"))
    running.line("hold")
    expect(harness, tenant, LIMIT)
    printed = running.finish()
    assert filled(printed) == LIMIT - 3 * PIECE, printed.text
    await_nothing(harness, tenant)


# Processes that are killed in the midst of their calls.
#
# Where a library does the accounting, a killed process's memory stays charged, or too much is given back.
# Users of HAMi-core: https://github.com/Project-HAMi/HAMi-core/issues/191,
# https://github.com/Project-HAMi/HAMi-core/issues/241; of nvshare:
# https://github.com/grgalex/nvshare/issues/23.


@attack(limit=True)
def leak_after_kill(harness: Harness) -> None:
    """Card and charges are at nothing after each kill, and the slice can be had again to the byte."""
    tenant = harness.tenant()
    for _ in range(ROUNDS):
        running = tenant.start(client("churn"), "--dev", harness.dev)
        running.line("churning")
        running.kill()
        running.finish()
        await_nothing(harness, tenant)
    assert_held(harness, tenant)


# Duplicates that fail on every way, also after the driver has made them.
#
# A ledger that counts a call and not its result goes wrong with each failure. There is no report of it by
# that name.


def agreed(harness: Harness, tenant: Tenant, running: Running) -> Seen:
    """Fail unless engine and card say the same; let the program go on."""
    seen = harness.seen(tenant)
    assert seen.charged == seen.card, seen
    running.go_on()
    return seen


def duplicated(harness: Harness, *words: str) -> None:
    """Have engine and card agree after the failures, after the memory's end and after its client's."""
    tenant = harness.tenant()
    running = tenant.start(client("failed_dup"), "--dev", harness.dev, SIZE, *words)
    running.line("failed")
    assert agreed(harness, tenant, running) == Seen(SIZE, SIZE)
    assert rest(running, "freed")["status"] == 0
    agreed(harness, tenant, running)
    assert rest(running, "closed")["status"] == 0
    await_nothing(harness, tenant)
    running.finish()
    assert_held(harness, tenant)


@attack(limit=True)
def leak_after_failed_dup(harness: Harness) -> None:
    """Failed duplicates change nothing, made or not: each time engine and card say the same."""
    duplicated(harness)


@attack(limit=False)
def duplicate_below_its_memory(harness: Harness) -> None:
    """A duplicate below the memory itself, which would go with it, leaves no charge behind: it is refused."""
    duplicated(harness, "below")


@attack(limit=False)
def duplicate_without_a_parent(harness: Harness) -> None:
    """A duplicate or import below what is not there is refused, and the driver goes on for everybody.

    Drivers 575 to 595 stand still for ever after one of them, and so does the simulated one.
    """
    duplicated(harness, "parentless")
