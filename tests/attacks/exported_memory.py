# SPDX-License-Identifier: Apache-2.0
"""Memory that left by a descriptor, and whose handles are given back.

CUDA has it so for cuMemExportToShareableHandle. The driver keeps such memory until the last close of the
file; who counts handles counts nothing any more: https://github.com/Project-HAMi/HAMi-core/issues/79.
"""

from __future__ import annotations

from tests.attacks.arena import LIMIT, MIB, Arena
from tests.attacks.attack import FILL, attack, await_nothing, expect, filled, probe

PIECE = 300 * MIB
EXPORT = (f"alloc={PIECE}", "export", "free")
# The last one is held by two imports alone.
WORDS = (*EXPORT, *EXPORT, *EXPORT, "import", "import", "close-export")


@attack(limit=True)
def exported_memory(arena: Arena) -> None:
    """Exported, freed and imported again, it is charged once, and the slice is had to the byte."""
    tenant = arena.tenant()
    running = tenant.start(*probe(arena, *WORDS, *FILL, "hold"))
    running.line("hold")
    expect(arena, tenant, LIMIT)
    printed = running.finish()
    assert filled(printed) == LIMIT - 3 * PIECE, printed.text
    await_nothing(arena, tenant)
