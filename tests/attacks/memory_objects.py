# SPDX-License-Identifier: Apache-2.0
"""Memory by every form that the driver has for it, in small objects that only duplicates hold.

CUDA's VMM has it so. cuMemCreate and its kin are not counted, or crash, where each form has to be known to
a library: https://github.com/Project-HAMi/HAMi-core/pull/128,
https://github.com/Project-HAMi/HAMi-core/issues/187, https://github.com/Project-HAMi/HAMi-core/issues/79.
"""

from __future__ import annotations

from tests.attacks.arena import LIMIT, MIB, Arena
from tests.attacks.attack import FILL, attack, await_nothing, expect, probe
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


def words() -> list[str]:
    """Return the probe's words: each object is duplicated, and its first handle given back."""
    found: list[str] = []
    for form in FORMS:
        found += [*form]
        for size in SIZES:
            # What is held by now are duplicates alone, so the object is the one after them.
            found += [f"alloc={size}", "dup", f"free={found.count('dup')}"]
        found.append("xfer=off")
    return found


@attack(limit=True)
def memory_objects(arena: Arena) -> None:
    """All forms together get the slice to the byte, and duplicates keep what they hold charged, once."""
    tenant = arena.tenant()
    running = tenant.start(*probe(arena, *words(), "hold"))
    running.line("hold")
    expect(arena, tenant, len(FORMS) * ROUNDED)
    running.kill()
    running.finish()
    await_nothing(arena, tenant)
    running = tenant.start(*probe(arena, *words(), *FILL, "hold"))
    running.line("hold")
    expect(arena, tenant, LIMIT)
    printed = running.finish()
    had = [one.number("status") for one in steps(printed) if one.name in {"alloc", "dup", "free"}]
    assert set(had) == {0}, printed.text
    assert [one.number("status") for one in steps(printed) if one.name == "fill"][-1] == NO_MEMORY
    await_nothing(arena, tenant)
