# SPDX-License-Identifier: Apache-2.0
"""The attacks on cgpud, with a simulated card."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.attack import Attack
from tests.attacks.daemon_harness import DaemonHarness
from tests.attacks.harness import DAEMON
from tests.attacks.suite import attacks
from tests.daemon.harness import Daemon, serving

pytestmark = pytest.mark.root


@pytest.fixture(scope="module")
def daemon() -> Iterator[Daemon]:
    """Return a daemon with one T4, which the attacks share."""
    with serving(Daemon) as running:
        # Some attacks are another user's. A runtime would bind the nodes into the container.
        for folder in (running.run.parent, running.run):
            folder.chmod(0o755)
        yield running


@pytest.fixture
def harness(daemon: Daemon, tmp_path: Path) -> Iterator[DaemonHarness]:
    """Return a node with one T4; an attack may leave nothing behind."""
    made = DaemonHarness(daemon, tmp_path)
    yield made
    made.clear()


@pytest.mark.parametrize("attack", attacks(DAEMON))
def test_attack(harness: DaemonHarness, attack: Attack) -> None:
    """The attack gets its slice and no more, and leaves nothing behind."""
    attack.run(harness)
