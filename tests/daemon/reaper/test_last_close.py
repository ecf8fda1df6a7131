# SPDX-License-Identifier: Apache-2.0
"""A container's close of a driver's node is the last one, however late the daemon is scheduled."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.daemon.harness import MIB, Daemon
from tests.runtime_config.oci_runtime.served import leads_to

NODE = "nvidiactl"


def pids(daemon: Daemon) -> list[int]:
    """Return the daemon, and the processes that look at others for it, which have its command line."""
    return [
        one.pid
        for one in psutil.process_iter(["name", "cmdline"])
        if one.pid == daemon.pid()
        or (one.info["name"] == "cgpud-looks" and str(daemon.run) in (one.info["cmdline"] or ()))
    ]


def files(daemon: Daemon) -> int:
    """Return how many descriptors of the driver's control node they have; the daemon has some of its own."""
    found = [link for pid in pids(daemon) for link in Path(f"/proc/{pid}/fd").iterdir()]
    return sum(leads_to(link).endswith(NODE) for link in found)


@contextmanager
def late_closes(daemon: Daemon, milliseconds: int) -> Iterator[None]:
    """Make each close of these begin so late, as on a machine whose processors are all busy."""
    late = f"inject=close:delay_enter={milliseconds * 1000}"
    options = ["-f", "-o", "/dev/null", "-e", "trace=close", "-e", late]
    who = [f"--attach={pid}" for pid in pids(daemon)]
    with subprocess.Popen(["strace", *options, *who], stderr=subprocess.PIPE, text=True) as strace:
        assert strace.stderr is not None
        for _ in who:
            assert "attached" in strace.stderr.readline()
        try:
            yield
        finally:
            strace.terminate()


def test_nothing_is_held_after_an_answer(fresh: Daemon) -> None:
    """When a call returns, neither the daemon nor what looks at processes for it has the call's file."""
    sliced = fresh.slice(1, f"gpu=0:{64 * MIB}", "alloc=1M", "hold", "alloc=1M", "hold", until="hold")
    own = files(fresh)
    with late_closes(fresh, 100):
        sliced.process.terminate()
        sliced.line("hold")
        assert files(fresh) == own
    assert own > 0
    sliced.succeeds("\n")
