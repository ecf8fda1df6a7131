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
    """Return the marks of an attack, one more for what the fake driver's stub of UVM cannot do."""
    return [*marks(attack), *([pytest.mark.real_driver] if attack.maps else [])]


@pytest.mark.parametrize("attack", attacks(MODULE, marks=mark_attack))
def test_attack(harness: ModuleHarness, attack: Attack) -> None:
    """The attack gets its slice and no more, and leaves nothing behind."""
    attack.run(harness)
