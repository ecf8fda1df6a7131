# SPDX-License-Identifier: Apache-2.0
"""Tables that all containers use: what one of them can have of each."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.daemon.harness import MIB, Daemon
from tests.integration.commands import eventually

pytestmark = pytest.mark.root

ONE = f"gpu=0:{1024 * MIB}"
SHARE = 256  # listeners of one container
LEAVING = Path(__file__).parents[1] / "leaving.py"


def listeners(daemon: Daemon) -> int:
    """Return how many listeners cgpud serves."""
    return int(daemon.status()["engine"]["listeners"])


def test_listeners_of_one_container_are_bounded(make_daemon: Callable[..., Daemon]) -> None:
    """A container that leaves more and more listeners behind has 256 of them, and others get theirs."""
    daemon = make_daemon()
    first = daemon.slice(1, ONE, "hold")
    first.line("hold")
    command = ["/usr/bin/python3", str(LEAVING), str(daemon.run / "seccomp.sock"), first.id, str(SHARE + 60)]
    pipe = subprocess.PIPE
    leaving = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=dict(os.environ))
    assert leaving.stdout is not None
    assert leaving.stdout.readline() == "left\n"
    eventually(lambda: "as many seccomp listeners as one container may" in daemon.log(), "nothing was logged")
    eventually(lambda: listeners(daemon) == SHARE, "it has not got its share")
    # What is started in it beyond its share gets no driver call, and no way around that.
    assert "status=0x0" not in daemon.enter(first, "alloc=1M").finish()
    assert "status=0x0" in daemon.slice(2, ONE, "alloc=1G").finish()
    leaving.communicate("")
    eventually(lambda: listeners(daemon) <= 1, "listeners that have ended stay")
    assert "status=0x0" in daemon.enter(first, "alloc=1M").finish()
    first.finish()
