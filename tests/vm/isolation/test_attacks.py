# SPDX-License-Identifier: Apache-2.0
"""The attacks on the kernel module, in a virtual machine. Each is a file of tests/attacks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attacks.arena import MODULE
from tests.attacks.attack import Attack
from tests.attacks.module_arena import ModuleArena
from tests.attacks.suite import attacks
from tests.vm.harness.machine import Machine
from tests.vm.harness.stage import stage


@pytest.fixture(scope="module")
def node(machine: Machine) -> Iterator[ModuleArena]:
    """Return driver and engine, which the attacks share."""
    with stage(machine) as made:
        yield ModuleArena(made)


@pytest.fixture
def arena(node: ModuleArena) -> Iterator[ModuleArena]:
    """Return the same; an attack may leave nothing behind."""
    yield node
    node.clear()


@pytest.mark.parametrize("attack", attacks(MODULE))
def test_attack(arena: ModuleArena, attack: Attack) -> None:
    """The attack gets its slice and no more, and leaves nothing behind."""
    attack.run(arena)
