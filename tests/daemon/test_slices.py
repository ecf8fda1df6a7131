# SPDX-License-Identifier: Apache-2.0
"""A program under a listener, with no container runtime: what is the daemon's own.

What every engine does with slices is in tests/conformance/memory.py.
"""

from __future__ import annotations

import pytest

from tests.daemon.harness import MIB, Daemon
from tests.integration.commands import eventually

pytestmark = pytest.mark.root

SIX = f"gpu=0:{6043 * MIB}"


def test_unregistered_container_gets_nothing(daemon: Daemon) -> None:
    """The listener of a container that nobody registered is closed: its driver calls fail."""
    sliced = daemon.slice(9, "", "info", register=False)
    sliced.finish()
    assert sliced.process.returncode != 0
    # The listener is closed first.
    eventually(lambda: "is not registered" in daemon.log(), "nothing was logged")


def test_enforcement_off(make_daemon: object) -> None:
    """With enforcement off the same program takes more than its slice: the limit comes from the engine."""
    daemon = make_daemon("T4", "enforce: false\n")  # type: ignore[operator]
    assert "status=0x51" not in daemon.slice(1, SIX, "alloc=6G", "alloc=1G").finish()
