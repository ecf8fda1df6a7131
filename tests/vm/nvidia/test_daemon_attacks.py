# SPDX-License-Identifier: Apache-2.0
"""The attacks on cgpud over NVIDIA's own driver. Each is a file of tests/attacks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attacks import foreign_files
from tests.attacks.attack import Attack
from tests.attacks.harness import DAEMON
from tests.attacks.suite import attacks, marks
from tests.vm.nvidia.daemon import GuestDaemon, running
from tests.vm.nvidia.daemon_harness import GuestDaemonHarness
from tests.vm.nvidia.out_of_reach import REASONS

__all__ = ["running"]

pytestmark = pytest.mark.real_driver


@pytest.fixture
def harness(running: GuestDaemon) -> Iterator[GuestDaemonHarness]:
    """Return the same; an attack may leave nothing behind."""
    made = GuestDaemonHarness(running)
    yield made
    made.clear()


def out_of_reach(attack: Attack) -> list[pytest.MarkDecorator]:
    """Return the marks of an attack. One that cannot get under way here has to fail."""
    why = REASONS.get((DAEMON, attack.name))
    return [*marks(attack), *([pytest.mark.xfail(reason=why, strict=True)] if why else [])]


# A process of this machine, beside the engine, serves foreign files, so their attacks are left out.
@pytest.mark.parametrize("attack", attacks(DAEMON, without=foreign_files, marks=out_of_reach))
def test_attack(harness: GuestDaemonHarness, attack: Attack) -> None:
    """The attack gets its slice and no more, and leaves nothing behind."""
    attack.run(harness)
