# SPDX-License-Identifier: Apache-2.0
"""A listener whose sender has ended before the daemon looks: its calls say whether it is the container's."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.daemon.conftest import MakeDaemon
from tests.daemon.harness import MIB
from tests.daemon.supervise.test_unfiltered import contained, group  # noqa: F401  # a fixture
from tests.integration.commands import eventually

REFUSED = "is refused: its listener came from a process that had ended"
SENT = "the listener of an ended sender is not there"


@pytest.mark.parametrize("inside", [True, False])
def test_whose_calls_come_by_it(
    make_daemon: MakeDaemon,
    group: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    inside: bool,
) -> None:
    """A process of the container's group is served, also by the next daemon, and one outside is refused."""
    daemon, sliced = contained(make_daemon, group)
    monkeypatch.setenv("SLICED_ENDED", "1")
    if not inside:
        monkeypatch.setattr(daemon, "place", lambda _: None)  # it is an attacker's
    os.kill(daemon.pid(), signal.SIGSTOP)
    try:
        others = [daemon.enter(sliced, "alloc=64M", until="sent") for _ in range(2)]
    finally:
        os.kill(daemon.pid(), signal.SIGCONT)
    eventually(lambda: daemon.log().count("listener attached") == 1 + len(others), SENT)
    others[0].go_on()
    said = others[0].finish()
    daemon.crash()
    others[1].go_on()
    for out in (said, others[1].finish()):
        assert ("status=0x0" in out) is inside, out
    if inside:
        assert REFUSED not in daemon.log()
    else:
        eventually(lambda: REFUSED in daemon.log(), "nothing was said")
    assert daemon.used(sliced) == 64 * MIB
    sliced.finish("\n")
