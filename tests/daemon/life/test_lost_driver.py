# SPDX-License-Identifier: Apache-2.0
"""A driver that goes while containers share GPU time."""

from __future__ import annotations

import json
import os
import signal

from tests.daemon.conftest import MakeDaemon
from tests.daemon.harness import MIB
from tests.daemon.work import count_of, rate_of
from tests.integration.commands import eventually

WEIGHT = 2


def test_channel_changes_are_tried_again_once_a_second(make_daemon: MakeDaemon) -> None:
    """Changes of channels are tried again once a second, not all the time, and the log says so."""
    daemon = make_daemon("T4", "enforce: true\n")
    daemon.write("0/policy", f"{WEIGHT}\n")
    held = [daemon.slice(n, f"gpu=0:{512 * MIB}:1", "group", "hold") for n in (1, 2)]
    for one in held:
        one.line("hold")
    eventually(lambda: count_of(daemon, "turns") >= 100, "two containers take turns")
    os.kill(int(json.loads((daemon.run / "sim.json").read_text())["pid"]), signal.SIGKILL)
    eventually(lambda: count_of(daemon, "gates_failed") > 0, "nothing failed")
    assert rate_of(daemon, "gates_failed") < 10
    assert "GPU 0: channels cannot be enabled or disabled, they stay as they are: " in daemon.log()
