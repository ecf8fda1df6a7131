# SPDX-License-Identifier: Apache-2.0
"""A machine that lacks descriptors, processes or room. Containers keep what they need."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from cgpu.errors import CgpuError
from tests.daemon import versions
from tests.daemon.conftest import MakeDaemon
from tests.daemon.harness import MIB, ROOT, Daemon, Sliced
from tests.daemon.upgrades import pids_of, upgrade

SOFT_LIMIT = 1024  # of descriptors, as most services and logins have it
MANY = 40  # listeners
# In the keeper: its next fork, or the next pidfd_open after a fork, fails once where the file is there.
FAILS_ONCE = """
import os
inner = os.{name}
def outer(*rest):
    if os.path.exists({flag!r}):
        os.unlink({flag!r})
        raise BlockingIOError(11, "Resource temporarily unavailable")
    return inner(*rest)
os.{name} = outer
"""


def holding(daemon: Daemon) -> Sliced:
    """Start a container that holds 512 MiB and asks for 64 more in the end."""
    return daemon.slice(1, f"gpu=0:{1024 * MIB}", "alloc=512M", "hold", "alloc=64M", until="alloc")


def test_descriptors(make_daemon: MakeDaemon) -> None:
    """With the usual soft limit a daemon is started again, however many listeners there are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (SOFT_LIMIT, hard))
    try:
        daemon = make_daemon()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    first = holding(daemon)
    for one in [daemon.enter(first, "alloc=1M", "hold") for _ in range(MANY)]:
        one.line("alloc")
    daemon.crash()
    assert daemon.used(first) == (512 + MANY) * MIB
    assert "alloc 67108864 size" in first.finish("\n")


@pytest.mark.parametrize("name", ["fork", "pidfd_open"])
def test_processes(fresh: Daemon, base: Path, name: str) -> None:
    """A daemon that cannot be started at once is started a little later, with all that was kept."""
    assert fresh.command("--stop").returncode == 0
    flag = base / "flag"
    script = versions.script(base / "cgpud", ROOT, FAILS_ONCE.format(name=name, flag=str(flag)))
    subprocess.run([*script.argv, *fresh.options()], check=True)
    first = holding(fresh)
    flag.touch()
    fresh.crash()
    assert not flag.exists()
    assert fresh.used(first) == 512 * MIB
    assert "alloc 67108864 size" in first.finish("\n")


@pytest.fixture
def full(base: Path) -> Iterator[Callable[[], None]]:
    """Give the daemon's folder a small disk of its own; call it to fill that."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(base)], check=True)

    def fill() -> None:
        with (base / "fill").open("wb", buffering=0) as stream, suppress(OSError):
            while True:
                stream.write(b"x" * 4096)

    yield fill
    subprocess.run(["umount", "--lazy", str(base)], check=True)


def test_room(full: Callable[[], None], base: Path) -> None:
    """A program that could not write its files is refused: the daemon before goes on."""
    daemon = Daemon(base)
    try:
        first = holding(daemon)
        pid = daemon.pid()
        full()
        with pytest.raises(CgpuError, match=r"No space left on device: a daemon writes some files there"):
            upgrade(daemon)
        assert pids_of(daemon) == [pid]
        assert daemon.used(first) == 512 * MIB
        (base / "fill").unlink()
        assert upgrade(daemon)["done"]
        assert daemon.used(first) == 512 * MIB
        assert "alloc 67108864 size" in first.finish("\n")
    finally:
        daemon.close()
