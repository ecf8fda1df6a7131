# SPDX-License-Identifier: Apache-2.0
"""The probe: its exit status, on which other tests rely; and that it runs in any image, with 32 bits too."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.sim.abi import MIB, PAGE_BIG
from tests.sim.support import BUILD, Sim, fields


@pytest.mark.parametrize("bits", [64, 32])
def test_story(sim: Sim, bits: int) -> None:
    """A whole story in one command line is the same for 32-bit processes."""
    lines = sim.lines(
        *("count", "info=all", "alloc=64K", "alloc=3M:2m", "host=1M", "dup", "info", "free=all"),
        *("gpu=1", "alloc=1", "info", "free", "expect=0x51", "alloc=1T", "reopen", "info"),
        *("alloc=64K", "export", "free", "import", "close-export", "info", "free"),
        *("group=3", "submit=20:100us:1us", "drain=10s", "figures"),
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
    for word in (
        "alloc",
        "alloc=x",
        "alloc=1:9k",
        "nonsense",
        "dup=1",
        "fork=0:1",
        "submit=1:1h",
        "group=129",
    ):
        done = sim.probe(word)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1), word
        assert f"cgpu-probe: {word}: not understood" in done.stderr
    missing = [str(BUILD / "cgpu-probe"), "--dev", "/nowhere", "info"]
    assert subprocess.run(missing, capture_output=True, timeout=240, check=False).returncode == 1


def test_crowd_fills_a_card_exactly(sim: Sim) -> None:
    """Four processes that take all they can get have exactly what the card has, and leave nothing."""
    lines = sim.lines("fork=4:8M:fill")
    assert sum(int(fields(line)["bytes"]) for line in lines) == 15104 * MIB
    assert sim.settles(0, 0)


def test_churn(sim: Sim) -> None:
    """Under a rain of signals every call happens exactly once."""
    line = fields(sim.lines("churn=1500:64K:150", "info")[0])
    assert int(line["alarms"]) > 0
    assert int(line["granted"]) + int(line["interrupted"]) == 1500
    assert line["bytes"] == line["used"] == str(int(line["granted"]) * PAGE_BIG)


def test_probe_is_static(built: Path) -> None:
    """The probe runs in an empty image: no interpreter, no libraries."""
    for name in ("cgpu-probe", "cgpu-probe32"):
        assert b"/ld-linux" not in (built / name).read_bytes()
