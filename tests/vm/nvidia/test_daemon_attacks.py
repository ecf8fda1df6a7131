# SPDX-License-Identifier: Apache-2.0
"""The attacks on cgpud over NVIDIA's own driver. Each is a file of tests/attacks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attacks import foreign_files
from tests.attacks.arena import DAEMON
from tests.attacks.attack import Attack
from tests.attacks.suite import attacks
from tests.vm.machine import Machine
from tests.vm.nvidia.daemon import GuestDaemon, begin, end
from tests.vm.nvidia.daemon_arena import GuestDaemonArena
from tests.vm.nvidia.out_of_reach import reason

pytestmark = pytest.mark.real_driver


@pytest.fixture(scope="module")
def running(machine: Machine) -> Iterator[GuestDaemon]:
    """Return cgpud over the driver, which the attacks share."""
    made = begin(machine)
    yield made
    end(made)


@pytest.fixture
def arena(running: GuestDaemon) -> Iterator[GuestDaemonArena]:
    """Return the same; an attack may leave nothing behind."""
    made = GuestDaemonArena(running)
    yield made
    made.clear()


# Those files are served by a process of this machine, beside the engine.
@pytest.mark.parametrize("attack", attacks(DAEMON, without=foreign_files))
def test_attack(request: pytest.FixtureRequest, arena: GuestDaemonArena, attack: Attack) -> None:
    """The attack gets its slice and no more, and leaves nothing behind."""
    why = reason(DAEMON, attack.name)
    if why:
        request.applymarker(pytest.mark.xfail(reason=why, strict=True))
    attack.run(arena)
