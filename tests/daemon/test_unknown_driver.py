# SPDX-License-Identifier: Apache-2.0
"""A driver version that is not in the table: refused, or held with the layouts of the last one before it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cgpu.kmod.daemon.simulate import start_time
from tests.daemon.harness import BUILD, MIB, Daemon, eventually

VERSION = "580.159.04"
MakeDaemon = Callable[..., Daemon]

pytestmark = pytest.mark.root


@pytest.fixture(autouse=True)
def driver(base: Path) -> Iterator[None]:
    """A simulated card with that driver, where the daemon finds its own."""
    mount = base / "run" / "sim"
    mount.parent.mkdir()
    command: list[str | Path] = [BUILD / "cgpu-sim", "--mount", mount, "--cards", "T4", "--driver", VERSION]
    with subprocess.Popen(command) as server:
        record = {"pid": server.pid, "started": start_time(server.pid), "cards": "T4"}
        mount.with_name("sim.json").write_text(json.dumps(record))
        eventually((mount / "nvidiactl").exists, "the card is served")
        yield
        server.terminate()


def test_refused_by_name(base: Path) -> None:
    """Without the key the daemon does not start, and names the version and the key."""
    with pytest.raises(
        AssertionError, match=f"driver version {VERSION} is unknown.*allow_unknown_driver: true"
    ):
        Daemon(base)


@pytest.mark.enforcement
def test_held_when_allowed(make_daemon: MakeDaemon) -> None:
    """With the key it runs with the layouts of the last version before it, says so, and holds the limit."""
    daemon = make_daemon("T4", "allow_unknown_driver: true\n")
    status = daemon.status()["engine"]
    assert (status["driver"], status["layout"]) == (VERSION, "nearest")
    sliced = daemon.slice(1, f"gpu=0:{64 * MIB}", "fill=2M", "expect=0x51", "alloc=2M")
    assert f"bytes={64 * MIB}" in sliced.finish()
    assert sliced.process.returncode == 0
