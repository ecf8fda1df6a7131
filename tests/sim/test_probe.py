# SPDX-License-Identifier: Apache-2.0
"""The probe: its exit status, on which other tests rely; with 32 bits too; and its scheduling controls."""

from __future__ import annotations

import subprocess

import pytest

from tests.sim.abi import MIB, PAGE_BIG
from tests.sim.conftest import Start
from tests.sim.support import BUILD, Sim, fields


@pytest.mark.parametrize("bits", [64, 32])
def test_story(sim: Sim, bits: int) -> None:
    """A whole story in one command line is the same for 32-bit processes."""
    lines = sim.lines(
        *("count", "info=all", "alloc=64K", "alloc=3M:2m", "host=1M", "dup", "info", "free=all"),
        *("gpu=1", "alloc=1", "info", "free", "expect=0x51", "alloc=1T", "close", "info"),
        *("alloc=64K", "export", "free", "import", "close-export", "info", "free"),
        *("group=3", "submit=20:100us:1us", "hold=1", "figures"),
        bits=bits,
    )
    assert fields(lines[0])["cards"] == "2"
    assert [fields(line)["used"] for line in lines if line.startswith("info")] == [
        *("0", "0", str(4 * MIB + PAGE_BIG), str(PAGE_BIG), "0", str(PAGE_BIG))
    ]
    assert all(fields(line)["status"] in {"0x0", "0x51"} for line in lines if "status=" in line)
    work = {"submitted": "60", "completed": "60", "queued": "0", "busy": "6000000"}
    assert fields(lines[-1]).items() >= work.items()


def test_exit_status(sim: Sim) -> None:
    """A refusal is 3, an unexpected success too, a bad word 2, no driver 1, and an expected refusal 0."""
    assert sim.probe("alloc=1T").returncode == 3
    assert sim.probe("expect=0x51", "alloc=64K").returncode == 3
    assert sim.probe("expect=0x51", "alloc=1T").returncode == 0
    assert sim.probe("class=0x7777").returncode == 3
    assert sim.probe("schedule=1").returncode == 3
    words = ("alloc", "alloc=x", "alloc=1:9k", "nonsense", "dup=1", "fork=0:1", "submit=1:1h", "group=129")
    for word in words:
        done = sim.probe(word)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), word
        assert f"cgpu-probe: {word}: not understood" in done.stderr
    missing = [str(BUILD / "cgpu-probe"), "--dev", "/nowhere", "info"]
    assert subprocess.run(missing, capture_output=True, timeout=240, check=False).returncode == 1


@pytest.mark.parametrize("version", ["515.43.04", "615.71.09"])
def test_controls_of_a_version(start: Start, version: str) -> None:
    """The oldest and the newest driver take each control in their layout, and tell the slice that was set."""
    sim = start("T4", version)
    lines = sim.lines(
        *("group=2", "submit=3:10us", "slice=7", "preempt=1", "interleave=2", "realtime=1"),
        *("realtime=0", "interleave-channel=1", "restart=1", "properties=900", "schedule=0"),
        *("schedule-channel=1", "schedule=1", "bind=1", "disable", "enable", "runlist-policy=1"),
        *("compute-policy=1", "scheduling"),
    )
    assert "slice=7 compute-policy=0 scheduling status=0x0" in "\n".join(lines)
