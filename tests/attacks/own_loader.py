# SPDX-License-Identifier: Apache-2.0
"""Programs that a dynamic loader of the container's own starts.

It knows no /etc/ld.so.preload, so that what a tool wants to have loaded into each program is not. HAMi,
where a distribution has another file for it: https://github.com/Project-HAMi/HAMi/issues/971.
"""

from __future__ import annotations

from tests.attacks.arena import Arena
from tests.attacks.attack import assert_held, attack
from tests.attacks.build import dynamic_probe, own_loader


@attack(limit=True)
def own_loader_starts_it(arena: Arena) -> None:
    """A program with a loader and a libc of the container's own gets the slice to the byte."""
    folder = own_loader()
    command = (folder / "ld.so", "--inhibit-cache", "--library-path", folder, dynamic_probe())
    program = (*command, "--dev", arena.dev)
    assert_held(arena, arena.tenant(), "/usr/bin/env", "-i", program=program)
