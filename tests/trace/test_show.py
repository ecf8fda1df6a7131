# SPDX-License-Identifier: Apache-2.0
"""Traces for people."""

from __future__ import annotations

import pytest

from cgpu.main import main as cgpu
from cgpu.trace.show import summary, table
from tests.integration.commands import call, must
from tests.trace.support import CGPU, Recorder

pytestmark = pytest.mark.root


def test_table(recorder: Recorder) -> None:
    """Each event is a line with seconds, process and thread, the call by name, and its answer."""
    trace = recorder.probe("alloc=3M:2m", "dup", "expect=0x51", "alloc=1T", "fork=1:64K")
    shown = list(table(trace))
    assert len(shown) == 1 + len(trace.events)
    assert shown[0].startswith("cgpu-probe: driver 580.142, kernel ")
    (alloc,) = [line for line in shown if "size=3145728" in line]
    assert "1/1 NV_ESC_RM_ALLOC(file 2, 48 bytes, hRoot=0x" in alloc
    assert "hClass=NV01_MEMORY_LOCAL_USER, pAllocParms=..., paramsSize=128, {owner=" in alloc
    assert ") = 0 NV_OK {" in alloc
    assert "size=4194304" in alloc.split(") = 0 ")[1]
    assert any(line.endswith(") = 0 NV_ERR_NO_MEMORY") for line in shown)
    assert any(line.endswith("fork() = process 2") for line in shown)
    assert shown[-1].endswith("exit with status 0")


def test_summary(recorder: Recorder) -> None:
    """The summary counts calls by name and answer."""
    trace = recorder.probe("alloc=64K", "alloc=64K", "expect=0x51", "alloc=1T", "info")
    shown = [line.split() for line in summary(trace)]
    assert ["2", "NV_OK", "NV_ESC_RM_ALLOC", "NV01_MEMORY_LOCAL_USER"] in shown
    assert ["1", "NV_ERR_NO_MEMORY", "NV_ESC_RM_ALLOC", "NV01_MEMORY_LOCAL_USER"] in shown
    assert ["1", "NV_OK", "NV_ESC_RM_CONTROL", "NV2080_CTRL_CMD_FB_GET_INFO_V2"] in shown
    total = sum(event.is_driver_call for event in trace.events)
    assert shown[-1] == [str(total), "calls", "in", "all"]


def test_command(recorder: Recorder) -> None:
    """The command prints it, stops when its reader does, and names what it cannot read."""
    recorder.probe("alloc=64K")
    assert "NV_ESC_RM_ALLOC" in must([CGPU, "trace", "show", recorder.file]).stdout
    assert must(["/bin/bash", "-c", f"{CGPU} trace show {recorder.file} | head -n 1"]).stderr == ""
    bad = call([CGPU, "trace", "show", "/nowhere"])
    assert bad.returncode == 125
    assert bad.stderr.startswith("cgpu trace: /nowhere: cannot be read: No such file or directory; expected ")


@pytest.mark.parametrize("words", [["trace"], ["trace", "nonsense"], ["trace", "show"]])
def test_wrong_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Wrong usage is 125 and one line that names the help."""
    assert cgpu(words) == 125
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "--help" in said


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    """Help names the subcommands, and the version is there."""
    assert cgpu(["--help"]) == cgpu(["--version"]) == 0
    said = capsys.readouterr().out
    assert "trace" in said
    assert "cgpu 0.1.0" in said
