# SPDX-License-Identifier: Apache-2.0
"""Static programs, of either width, and by the kernel's other gate.

Nothing can be preloaded into them. musl and static images: https://github.com/Project-HAMi/HAMi/issues/2101,
https://github.com/Project-HAMi/HAMi/issues/2265; static programs: https://github.com/Project-HAMi/website/pull/741.
"""

from __future__ import annotations

from tests.attacks.arena import Arena
from tests.attacks.attack import assert_held, attack
from tests.attacks.build import PROBE, PROBE_32, other_entry


@attack(limit=True)
def static_binary(arena: Arena) -> None:
    """Static programs of 64 and of 32 bits get the slice to the byte."""
    tenant = arena.tenant()
    for program in (PROBE, PROBE_32):
        assert_held(arena, tenant, program=(program, "--dev", arena.dev))


@attack(limit=True)
def other_gate(arena: Arena) -> None:
    """So does a 64-bit program that makes its driver calls by int 0x80."""
    assert_held(arena, arena.tenant(), program=(other_entry(), "--dev", arena.dev))
