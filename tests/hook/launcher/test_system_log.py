# SPDX-License-Identifier: Apache-2.0
"""The line that the hook in C writes to the system log."""

from __future__ import annotations

import re
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.client.support import CONTAINER, T4
from tests.hook.support import FakeTree, compile_hook

GRANTS = 20
ZONE = "Etc/GMT+7"  # far from where a clock without a zone is


@pytest.fixture
def tree(tmp_path: Path) -> FakeTree:
    tree = FakeTree(tmp_path).build(T4)
    tree.command()  # writes the configuration
    compile_hook(tmp_path)
    return tree


def register(tree: FakeTree) -> None:
    grants = [word for gpu in range(GRANTS) for word in ("--grant", f"{gpu}:85899345920:999:1")]
    command = [str(tree.base / "cgpu-hook"), "prestart", *grants]
    subprocess.run(
        command, input=tree.state(), text=True, check=True, cwd=tree.base, env={"TZ": ZONE}, timeout=240
    )


def hours(line: bytes) -> int:
    """Return the hour that a line begins with, after checks of all the rest."""
    found = re.fullmatch(
        rb"<30>[A-Z][a-z]{2} [ 0-9][0-9] ([0-9]{2}):[0-9]{2}:[0-9]{2} "
        rb"cgpu-hook\[[0-9]+\]: container=(\S+) registered (.*)",
        line,
    )
    assert found is not None, line
    assert found[2].decode() == CONTAINER
    assert found[3].count(b"gpu=") == GRANTS
    assert found[3].endswith(b" gpu=19 memsize=85899345920 (81920 MiB) weight=999 highprio=1")
    return int(found[1])


def received(log: socket.socket) -> bytes:
    """Return the one line that comes to a log of either type."""
    if log.type == socket.SOCK_DGRAM:
        return log.recv(1 << 16)
    connection, _ = log.accept()
    with connection, connection.makefile("rb") as stream:
        return stream.read()


def hour_there() -> int:
    done = subprocess.run(["date", "+%H"], env={"TZ": ZONE}, capture_output=True, check=True, timeout=240)
    return int(done.stdout)


@pytest.mark.parametrize(("kind", "end"), [(socket.SOCK_DGRAM, b""), (socket.SOCK_STREAM, b"\0")])
def test_line(tree: FakeTree, kind: socket.SocketKind, end: bytes) -> None:
    """A line is sent whole, however long, in this machine's time; a stream gets a zero byte at its end."""
    with socket.socket(socket.AF_UNIX, kind) as log, ThreadPoolExecutor() as pool:
        log.bind(str(tree.base / "log"))
        if kind == socket.SOCK_STREAM:
            log.listen()
        line = pool.submit(received, log)
        before = hour_there()
        register(tree)
        got = line.result(240)
        assert got.endswith(end)
        assert hours(got.removesuffix(end)) in (before, hour_there())


def test_no_log(tree: FakeTree) -> None:
    """Without a reader of the line the container is registered all the same."""
    register(tree)
    assert tree.inst_ctl.read_text().startswith(f"create id={CONTAINER} ")
