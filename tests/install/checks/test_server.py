# SPDX-License-Identifier: Apache-2.0
"""Whether the socket of the wrapper's server is open."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from cgpu import paths
from cgpu.install.checks import server
from cgpu.install.node.report import NodeReport
from cgpu.install.places import SERVER_STARTS
from tests.install.machine import node_report, write

HEAD = "Num RefCount Protocol Flags Type St Inode Path\n"
LISTENS = f"0: 2 0 00010000 0005 01 99 {paths.RUNTIME_SOCKET}\n"
CONNECTED = f"0: 3 0 00000000 0005 03 99 {paths.RUNTIME_SOCKET}\n"


def verdict(report: NodeReport) -> tuple[str, str]:
    (found,) = server.is_heard(report)
    return found.verdict, found.fix


def test_where_systemd_has_the_unit(tmp_path: Path) -> None:
    """A socket must accept; connections that last are not enough. The fix is what enables the unit."""
    report = node_report(tmp_path)
    write(tmp_path, {f"lib/systemd/system/{SERVER_STARTS}": "[Socket]\n"})
    for line, expected in ((LISTENS, ("ok", "")), (CONNECTED, ("warning", server.START))):
        write(tmp_path, {"proc/net/unix": HEAD + line})
        assert verdict(report) == expected


def test_elsewhere(tmp_path: Path) -> None:
    """Without the unit, without systemd and without an engine nothing is wrong."""
    report = node_report(tmp_path)
    assert verdict(report) == ("skipped", "")
    write(tmp_path, {f"lib/systemd/system/{SERVER_STARTS}": "[Socket]\n"})
    software = replace(report.node.software, systemd=False)
    ours = replace(report.node.ours, engine=None)
    for node in (replace(report.node, software=software), replace(report.node, ours=ours)):
        assert verdict(replace(report, node=node)) == ("skipped", "")
