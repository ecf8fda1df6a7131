# SPDX-License-Identifier: Apache-2.0
"""Containers inside of the container: namespaces, root, device nodes and seccomp filter of their own.

What a tool gave to the outer container, libraries, files, variables, is not in the inner one. Users of HAMi:
https://github.com/Project-HAMi/HAMi/issues/1777.
"""

from __future__ import annotations

import errno

from tests.attacks.arena import DAEMON, Arena
from tests.attacks.attack import assert_held, attack, numbers
from tests.attacks.build import PROBE, alone

LEVELS = 2


@attack(limit=True)
def docker_in_docker(arena: Arena) -> None:
    """A container in a container in the slice has the slice; under cgpud it gets no listener of its own."""
    program = (alone("nested", "-static"), LEVELS, arena.scratch, arena.dev, PROBE, "--dev", "/dev")
    printed = assert_held(arena, arena.tenant(), program=program)
    told = next(line for line in printed.stdout.splitlines() if line.startswith("listener"))
    assert numbers(told)["errno"] == (errno.EBUSY if arena.engine == DAEMON else 0)
