# SPDX-License-Identifier: Apache-2.0
"""Cards whose numbers in the driver are not those of their nodes."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.daemon.conftest import Drive
from tests.daemon.harness import MIB, Daemon

MakeDaemon = Callable[..., Daemon]

pytestmark = pytest.mark.root


@pytest.mark.enforcement
def test_other_order(base: Path, make_daemon: MakeDaemon, drive: Drive) -> None:
    """Where the second card was attached first, a container has the card that it was given, and no other."""
    drive("580.142", cards="T4:2")
    first = os.open(base / "run" / "sim" / "nvidia1", os.O_RDWR)
    daemon = make_daemon("T4:2")
    os.close(first)
    for gpu in (0, 1):
        mine, other = f"gpu={gpu}", f"gpu={1 - gpu}"
        words = (mine, "fill=2M", "hold", other, "expect-errno=1", "alloc=2M")
        sliced = daemon.slice(gpu + 1, f"gpu={gpu}:{64 * MIB}", *words)
        assert f"bytes={64 * MIB} " in sliced.line("fill")
        assert daemon.used(sliced, gpu) == 64 * MIB
        assert daemon.instances(1 - gpu) == []
        sliced.finish("\n")
        assert sliced.process.returncode == 0
