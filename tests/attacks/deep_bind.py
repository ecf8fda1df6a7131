# SPDX-License-Identifier: Apache-2.0
"""Libraries that bind past what is preloaded.

RTLD_DEEPBIND and dlmopen have a library use its own libc first. Said of HAMi in
https://github.com/Project-HAMi/website/pull/741.
"""

from __future__ import annotations

from tests.attacks.arena import Arena
from tests.attacks.attack import assert_held, attack, probe
from tests.attacks.build import alone, guard, probe_library

NO_DRIVER = 1  # the probe's exit status


def preloading(arena: Arena, how: str) -> tuple[str, ...]:
    """Return what is run with a library preloaded that lets no driver call pass."""
    seen = [arena.path(path) for path in (guard(), alone("deep_bind"), probe_library())]
    return ("/usr/bin/env", f"LD_PRELOAD={seen[0]}", seen[1], how, seen[2])


@attack(limit=True)
def deep_bind(arena: Arena) -> None:
    """A library that was bound past the preloaded one gets the slice to the byte, and no more."""
    tenant = arena.tenant()
    held_off = tenant.run(*preloading(arena, "plain"), *probe(arena, "info")[1:])
    assert held_off.returncode == NO_DRIVER, held_off.text
    for how in ("deep", "namespace"):
        assert_held(arena, tenant, program=(*preloading(arena, how), "--dev", arena.dev))
