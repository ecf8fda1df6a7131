# SPDX-License-Identifier: Apache-2.0
"""The attacks on the kernel module, in a virtual machine. Each is a file of tests/attacks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.attacks.attack import Attack
from tests.attacks.harness import MODULE
from tests.attacks.module_harness import ModuleHarness
from tests.attacks.suite import attacks, marks
from tests.vm.harness.machine import Machine
from tests.vm.harness.slices import stage


@pytest.fixture(scope="module")
def node(machine: Machine) -> Iterator[ModuleHarness]:
    """Return driver and engine, which the attacks share."""
    with stage(machine) as made:
        yield ModuleHarness(made)


@pytest.fixture
def harness(node: ModuleHarness) -> Iterator[ModuleHarness]:
    """Return the same; an attack may leave nothing behind."""
    yield node
    node.clear()


def mark_attack(attack: Attack) -> list[pytest.MarkDecorator]:
    """Return the marks of an attack, more for what the fake driver's UVM or another processor cannot do."""
    needed = [(pytest.mark.real_driver, attack.maps), (pytest.mark.native, attack.native)]
    return [*marks(attack), *(mark for mark, is_needed in needed if is_needed)]


@pytest.mark.parametrize("attack", attacks(MODULE, marks=mark_attack))
def test_attack(harness: ModuleHarness, attack: Attack) -> None:
    """The attack gets its slice and no more, and leaves nothing behind."""
    attack.run(harness)
