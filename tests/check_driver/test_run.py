# SPDX-License-Identifier: Apache-2.0
"""Runs of the program: its time, its environment, its leavings, and its errors."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from cgpu.check_driver import run as run_module
from cgpu.check_driver.main import main
from cgpu.check_driver.run import PROGRAM, CheckError, Outcome, assure_unknown, run
from cgpu.errors import CgpuError
from tests.integration.commands import eventually
from tests.runtime_config.support import program
from tests.sim.conftest import Start
from tests.sim.support import Sim

UNKNOWN = "580.142.01"


@pytest.mark.root
def test_command(sim: Sim, capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints the version, a line for each check on each card, and how many passed."""
    assert main(["--dev", str(sim.mount)]) == 0
    first, *lines, last = capsys.readouterr().out.splitlines()
    assert first == "driver 580.142, in the table"
    assert f"ok      {sim.mount}/nvidia1: mappings of UVM" in lines
    assert last == f"{len(lines)} passed, 0 failed, 0 skipped"


@pytest.mark.root
def test_command_fails(start: Start, capsys: pytest.CaptureFixture[str]) -> None:
    """The command exits 1 when a check fails, and the line says which, where and why."""
    sim = start("T4", "580.142", "--says", "575.99.01")
    assert main(["--dev", str(sim.mount)]) == 1
    text = capsys.readouterr().out
    assert text.startswith("driver 575.99.01, not in the table: checked with the layouts of 575.64.05\n")
    assert f"FAILED  {sim.mount}/nvidia0: identity of the card: MIG mode: status 0x1f\n" in text


def test_command_without_a_driver(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a driver it exits 1 after one line that says what is missing."""
    assert main(["--dev", str(tmp_path)]) == 1
    cure = "load the NVIDIA driver; to try without a GPU: cgpud --simulate T4"
    line = f"cgpu check-driver: {tmp_path}/nvidiactl: No such file or directory; {cure}\n"
    assert capsys.readouterr().err == line


@pytest.mark.root
def test_too_old(start: Start) -> None:
    """A driver older than all known ones has no layouts to be checked with."""
    sim = start("T4", "515.43.04", "--says", "470.199.02")
    with pytest.raises(CgpuError, match=r"^driver version 470\.199\.02: is older than all that are known"):
        run(str(sim.mount))


@pytest.mark.root
def test_instances(start: Start) -> None:
    """A card in MIG mode is asked what it can answer; only such cards are too few."""
    outcome = run(str(start("H200:2/mig=1").mount))
    assert {check.card[-1] for check in outcome.with_verdict("skipped")} == {"1"}
    assert outcome.with_verdict("failed") == []
    with pytest.raises(CgpuError, match="cards in MIG mode tell too little; one outside of it is needed"):
        run(str(start("H200/mig=0").mount))


@pytest.mark.root
def test_only_unknown_ones(start: Start) -> None:
    """A known version is not checked; an unknown one that does not fit is reported in one line."""
    assert assure_unknown(str(start("T4").mount)) == Outcome("580.142", True, "580.142", ())
    assert len(assure_unknown(str(start("T4", "580.142", "--says", UNKNOWN).mount)).checks) > 20
    sim = start("T4", "590.44.01", "--says", UNKNOWN)
    with pytest.raises(CgpuError) as refused:
        assure_unknown(str(sim.mount))
    assert str(refused.value) == (
        f"driver version {UNKNOWN} is unknown and has not the layouts of 580.142: {sim.mount}/nvidia0: "
        "calls of nvidia-uvm: UVM_FREE of 24 bytes: byte 8 was written and is not the driver's to write "
        "(and 1 more); take a driver of the table, or a newer OpenCGPU; all checks: cgpu check-driver"
    )


@pytest.mark.root
def test_beside_others(sim: Sim) -> None:
    """Others that take and give memory of the card meanwhile do not make it fail."""
    done = threading.Event()

    def others() -> None:
        while not done.is_set():
            sim.probe("alloc=64M", "hold=0.1", "alloc=3M", "free=all", "alloc=7M")

    with_others = threading.Thread(target=others)
    with_others.start()
    try:
        outcomes = [run(str(sim.mount)) for _ in range(3)]
    finally:
        done.set()
        with_others.join()
    assert [outcome.with_verdict("failed") for outcome in outcomes] == [[]] * 3
    assert sim.settles(0, 0)


@pytest.mark.root
def test_killed_half_way(sim: Sim) -> None:
    """Whenever it is killed, nothing of the card stays taken."""
    for delay in range(12):
        with subprocess.Popen(
            [PROGRAM, "--dev", sim.mount], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as child:
            time.sleep(delay / 400)
            child.kill()
        assert child.returncode in (0, -signal.SIGKILL)
    assert sim.settles(0, 0)
    assert sim.settles(1, 0)


def test_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program gets nothing of our environment, and no open file but its standard ones."""
    monkeypatch.setenv("LD_PRELOAD", "/nonexistent.so")
    said = tmp_path / "said"
    text = f"/usr/bin/env >{said}; pwd >>{said}; printf 'driver\\t1.1\\tknown\\t1.1\\n'"
    assert run(program=program(tmp_path / "program", text)).checks == ()
    lines = [line for line in said.read_text().splitlines() if not line.startswith(("PWD=", "_=", "SHLVL="))]
    assert lines == ["/"]


@pytest.mark.parametrize(
    ("said", "where"),
    [
        ("", "nvidiactl"),
        ("begun\\t0\\tone\\t\\npassed\\t0\\tone\\t\\nbegun\\t7\\ttwo\\t\\n", "nvidia7: two"),
    ],
)
def test_time_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, where: str) -> None:
    """A check that does not come back ends the run, by its name."""
    monkeypatch.setattr(run_module, "CHECK_S", 3.0)
    text = f"printf 'driver\\t1.1\\tunknown\\t1.0\\n{said}'; exec sleep 600"
    begin = time.monotonic()
    with pytest.raises(CheckError, match=f"/{where} did not come back within 3 seconds; .* dmesg") as late:
        run(str(tmp_path), program=program(tmp_path / "program", text))
    assert time.monotonic() - begin < 300
    assert late.value.outcome == Outcome("1.1", False, "1.0", ())


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("passed", "nvidia0: one did not come back within 2 seconds"),
        ("begun", "nvidia0: one was still at work after 6 seconds, the limit of all checks"),
    ],
)
def test_slow_answers_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, reason: str
) -> None:
    """No output but that of a next check gives more time, and all checks together have a limit."""
    monkeypatch.setattr(run_module, "CHECK_S", 2.0)
    monkeypatch.setattr(run_module, "BEGIN_S", 6.0)
    text = "printf 'driver\\t1.1\\tunknown\\t1.0\\nbegun\\t0\\tone\\t\\n'\n"
    text += f"for _ in $(seq 60); do sleep 0.5; printf '{said}\\t0\\tone\\t\\n'; done"
    with pytest.raises(CheckError, match=reason):
        run(str(tmp_path), program=program(tmp_path / "program", text))


def test_each_check_has_its_own_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several checks together may take longer than one of them."""
    monkeypatch.setattr(run_module, "CHECK_S", 3.0)
    text = "printf 'driver\\t1.1\\tunknown\\t1.0\\n'\n"
    for number in range(3):
        text += f"printf 'begun\\t0\\t{number}\\t\\n'; sleep 1.5; printf 'passed\\t0\\t{number}\\t\\n'\n"
    assert len(run(str(tmp_path), program=program(tmp_path / "program", text)).with_verdict("passed")) == 3


def nodes_of(pid: int) -> set[str]:
    """Return the nodes of cards that a process has open."""
    found = {Path(os.readlink(entry)).name for entry in Path(f"/proc/{pid}/fd").iterdir()}
    return {name for name in found if re.fullmatch("nvidia[0-9]+", name)}


@pytest.mark.root
def test_cards_stay_open(start: Start) -> None:
    """All cards are open while one is asked: a driver ends a card that no process has open."""
    sim = start("T4:3")
    command: list[str | Path] = [PROGRAM, "--dev", sim.mount]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert any(line.startswith("passed\t2\t") for line in child.stdout)
        child.send_signal(signal.SIGSTOP)
        opened = nodes_of(child.pid)
        child.send_signal(signal.SIGCONT)
        child.stdout.read()
    assert (opened, child.returncode) == ({"nvidia0", "nvidia1", "nvidia2"}, 0)


@pytest.mark.root
@pytest.mark.parametrize("hidden", [False, True])
def test_numbers_of_devices(start: Start, tmp_path: Path, *, hidden: bool) -> None:
    """A card is checked by the driver's number for it, whichever card was there first or has gone."""
    sim = start("T4:2")
    first = sim.open("nvidia1")
    with sim.client(0) as client:
        assert client.number(0) == 1
        for node in ("nvidiactl", "nvidia-uvm", "nvidia0", *(() if hidden else ("nvidia1",))):
            (tmp_path / node).symlink_to(sim.mount / node)
        if hidden:
            os.close(first)
            eventually(lambda: client.number(1) is None, "the card is still attached")
        found = run(str(tmp_path))
        assert [one for one in found.checks if one.card.endswith("0") and one.verdict != "passed"] == []
        assert {one.card for one in found.with_verdict("failed")} == (
            {f"{tmp_path}/nvidia1"} if hidden else set()
        )
    if not hidden:
        os.close(first)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kill -ALRM $$", "the driver's check ended with -14 after: nothing; try: cgpu check-driver"),
        ("echo passed; kill -ALRM $$", "the driver's check ended with -14 after: passed; try: "),
        ("echo 'no driver' >&2; exit 2", "no driver"),
        ("echo garbage", "not understood"),
        ("printf 'driver\\t1.1\\tknown\\t1.1\\nperhaps\\t0\\tname\\t\\n'", "not understood"),
        ("printf 'driver\\t1.1\\tknown\\t1.1\\nfailed\\t0\\tname\\t\\n'", "ended with 0, and says otherwise"),
        ("printf 'driver\\t1.1\\tknown\\t1.1\\npassed\\t0\\tname\\t\\n'; exit 1", "ended with 1, and says"),
    ],
)
def test_bad_ends(tmp_path: Path, text: str, message: str) -> None:
    """A part of an answer is none."""
    with pytest.raises(CgpuError, match=message):
        run(program=program(tmp_path / "program", text))


def test_no_program(tmp_path: Path) -> None:
    """Without the C parts, the line says how to build them."""
    with pytest.raises(CgpuError, match="cannot be run: No such file or directory; build it: make -C kmod"):
        run(program=tmp_path / "none")
