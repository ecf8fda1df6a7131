# SPDX-License-Identifier: Apache-2.0
"""Runs the checks that look for sockets in /proc/net/unix."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from cgpu import paths
from cgpu.install.checks import engine, server
from cgpu.install.places import SERVER_STARTS
from tests.install.checks.test_checks import only_verdict, with_root
from tests.install.machine import node_report, sound, write

PROC_NET_UNIX = (
    "Num RefCount Protocol Flags Type St Inode Path\n0: 2 0 00010000 0001 01 99 /run/cgpu_km/seccomp.sock\n"
)


def test_listener(tmp_path: Path) -> None:
    """The check finds a listening socket in /proc/net/unix, and passes over a socket that is only bound."""
    write(tmp_path / "root", {"proc/net/unix": PROC_NET_UNIX})
    assert only_verdict(engine.listener(with_root(node_report(tmp_path / "made"), tmp_path / "root"))) == "ok"
    write(tmp_path / "root", {"proc/net/unix": PROC_NET_UNIX.replace("00010000", "00000000")})
    assert (
        only_verdict(engine.listener(with_root(node_report(tmp_path / "made"), tmp_path / "root")))
        == "problem"
    )


@pytest.mark.parametrize(
    ("lock", "process", "expected"),
    [
        ("7 100\n", "S", "ok"),
        ("7 99\n", "S", "warning"),
        ("7 100\n", "Z", "warning"),
        ("8 100\n", "S", "warning"),
        ("no lock\n", "S", "ok"),
        ("9" * 5000, "S", "ok"),
    ],
)
def test_keeper(tmp_path: Path, lock: str, process: str, expected: str) -> None:
    """A keeper's socket counts where the keeper that has written the lock lives: it may be another's."""
    root = sound(tmp_path / "root")
    heard = f"ffff8: 00000002 00000000 00000000 0002 01 3107 {paths.KEEPER_SOCKET}\n"
    status = f"7 (cgpud) {process} " + "0 " * 18 + "100 0\n"
    write(root, {"proc/net/unix": "Num\n" + heard, "proc/7/stat": status, paths.LOCK.lstrip("/"): lock})
    assert only_verdict(engine.descriptor_store(node_report(root))) == expected


def test_socket_of_the_server(tmp_path: Path) -> None:
    """Where systemd has its unit the socket must accept; connections that last are not enough.

    Without systemd and without an engine nothing is wrong.
    """
    report = node_report(tmp_path)
    assert only_verdict(server.is_heard(report)) == "skipped"
    write(tmp_path, {f"lib/systemd/system/{SERVER_STARTS}": "[Socket]\n"})
    for state, expected in (
        ("00010000 0005 01", ("ok", "")),
        ("00000000 0005 03", ("warning", server.START)),
    ):
        write(tmp_path, {"proc/net/unix": f"Num\n0: 2 0 {state} 99 {paths.RUNTIME_SOCKET}\n"})
        (found,) = server.is_heard(report)
        assert (found.verdict, found.fix) == expected
    software = replace(report.node.software, systemd=False)
    ours = replace(report.node.ours, engine=None)
    for machine in (replace(report.node, software=software), replace(report.node, ours=ours)):
        assert only_verdict(server.is_heard(replace(report, node=machine))) == "skipped"
