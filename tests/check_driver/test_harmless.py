# SPDX-License-Identifier: Apache-2.0
"""A driver that the check must not hang, and one that hangs all the same."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from cgpu.check_driver import run as run_module
from cgpu.check_driver.run import PROGRAM, CheckError, Outcome, run
from cgpu.kmod.abi.rows.row import line_of
from tests.check_driver.tables import DUPLICATES, TABLE, mutant
from tests.sim.conftest import Start

pytestmark = pytest.mark.root

# Becomes the program, of which something else reads the output, and stops the server of the cards once a
# check has begun.
HANG = """#!/bin/bash
exec {program} "$@" > >(while IFS= read -r line; do
    echo "$line"; [[ $line != begun*RM_ALLOC* ]] || kill -STOP {server}
done)
"""


def test_a_check_that_hangs(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run ends with the check's name; its process, which no signal ends, is left to the kernel."""
    children: list[subprocess.Popen[str]] = []

    class Kept(subprocess.Popen[str]):
        def __init__(self, *words: Any, **options: Any) -> None:
            super().__init__(*words, **options)
            children.append(self)

        def kill(self) -> None:
            """Do nothing: no signal ends a call that a stopped server of FUSE has read."""

    monkeypatch.setattr(run_module, "CHECK_S", 3.0)
    sim = start("T4:8")
    monkeypatch.setattr(subprocess, "Popen", Kept)
    script = tmp_path / "program"
    script.write_text(HANG.format(program=PROGRAM, server=sim.process.pid))
    script.chmod(0o755)
    try:
        with pytest.raises(CheckError, match=r"/nvidia\d: .* did not come back within 3 seconds") as late:
            run(str(sim.mount), program=script)
        assert children[0].poll() is None
    finally:
        # In this order: a program that goes on begins a further check, at which the server is stopped again.
        children[0].send_signal(signal.SIGKILL)
        os.kill(sim.process.pid, signal.SIGCONT)
    assert late.value.outcome == Outcome("580.142", True, "580.142", ())
    children[0].communicate(timeout=60)
    assert sim.settles(0, 0)


@pytest.mark.parametrize("version", ["580.142.01", "900.10.01"])
def test_no_duplicate_by_a_guessed_layout(start: Start, tmp_path: Path, version: str) -> None:
    """NVIDIA's driver hangs on a parent that does not exist: one at a wrong place is not sent."""
    plays = "580.142" if version.startswith("580") else "615.71.09"
    sim = start("T4", plays, "--says", version)
    outcome = run(str(sim.mount), program=mutant("NVOS55_PARAMETERS", "hParent", 0, plays, tmp_path))
    assert outcome.with_verdict("failed") == []
    skipped = outcome.with_verdict("skipped")
    assert [check.name for check in skipped] == DUPLICATES
    assert {check.reason for check in skipped} == {"this driver may hang for ever if its layouts are others"}


def test_no_duplicate_by_a_row(start: Start) -> None:
    """A row may be wrong, too: by its layouts no duplicate is sent to a driver that may hang."""
    row = line_of(b'{"version": "900.10.01", "base": "595.45.04"}', TABLE)[1]
    outcome = run(str(start("T4", "595.45.04", "--says", "900.10.01").mount), row)
    assert (outcome.known, outcome.with_verdict("failed")) == (True, [])
    assert [check.name for check in outcome.with_verdict("skipped")] == DUPLICATES


def test_duplicates_where_the_driver_is_sound(start: Start) -> None:
    """A driver before 575 refuses such a parent: there duplicates are checked under unknown versions, too."""
    outcome = run(str(start("T4", "570.211.01", "--says", "570.211.02").mount))
    assert {check.verdict for check in outcome.checks} == {"passed"}
