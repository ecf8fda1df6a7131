# SPDX-License-Identifier: Apache-2.0
"""cgpu status and the report of cgpu doctor, on made-up situations."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cgpu.errors import CgpuError
from cgpu.install.checks import engine, places, publisher, runtime
from cgpu.install.checks.finding import Finding
from cgpu.install.commands import doctor, status
from cgpu.install.commands.status import Exit
from cgpu.install.node.facts.settings import Entry
from cgpu.install.node.report import NodeReport
from cgpu.install.node.snapshot import Card, Slice, Snapshot
from cgpu.install.places import PUBLISHER, PUBLISHER_STARTS
from cgpu.install.runner import Done
from cgpu.kmod.abi.rows.files import Row, Rows
from tests.exporter.trees import gpu_line, slice_line
from tests.install.machine import node, node_report, write

EMPTY: dict[str, object] = {"facts": {}, "steps": [], "unfinished": [], "folders": [], "files": {}}
RECORD = json.dumps({"format": 1, "command": "install", **EMPTY})
GPU = {
    "name": "Tesla T4",
    "memtotal": "1000",
    "max_inst": "2",
    "free_weight": "2",
    "policy": "1",
    "mig": "0",
    "stat": gpu_line("GPU-0", memtotal=1000, max_inst=2, promised=0, places=0),
}
FOUND = [
    Finding("driver", "ok", "NVIDIA 580.142"),
    Finding("engine", "problem", "no engine\nis running", "cgpud"),
    Finding("systemd", "warning", "none", "cgpud"),
    Finding("mig", "skipped", "no card"),
]


def stat(**figures: int) -> str:
    """Return the counters of a card of 1000 bytes with two places."""
    return gpu_line("GPU-0", **{"memtotal": 1000, "max_inst": 2, "promised": 0, "places": 0, **figures})


def card(**nodes: str) -> Card:
    return Card(0, {**GPU, **nodes}, ())


FULL = card(stat=stat(promised=1000, places=1))


@pytest.mark.parametrize(
    ("one", "full"),
    [
        (card(), False),
        (card(stat=stat(promised=999, places=1)), False),
        (FULL, True),
        (card(stat=stat(promised=2, places=2)), True),
        (card(free_weight="0"), True),
        (card(stat=stat(mig=1)), True),
        (card(stat=stat(lost=1)), True),
        (card(stat="odd"), False),
    ],
)
def test_full(one: Card, *, full: bool) -> None:
    """A card is full when memory, weights or places are given out."""
    assert status.is_full(one) is full


@pytest.fixture
def sound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let everything that is looked at beside the node_report be well."""
    for name in ("interpreter", "hook", "launcher"):
        monkeypatch.setattr(runtime, name, lambda: [Finding("x", "ok", "well")])
    monkeypatch.setattr(engine, "listener", lambda _: [Finding("x", "ok", "well")])
    monkeypatch.setattr(status, "_configured", list)


@pytest.mark.parametrize(
    ("words", "rows", "line"),
    [
        ("row", (Row("999.01", "/etc/a.json", ""),), "not in the table: served by /etc/a.json"),
        ("row", (), "not in the table: served by a file that is no longer there"),
        ("provisional", (), "not in the table: served provisionally, by older layouts"),
    ],
)
def test_a_driver_outside_of_the_table(
    tmp_path: Path, sound: None, words: str, rows: tuple[Row, ...], line: str
) -> None:
    """The line of the driver says by what it is served."""
    now = node_report(tmp_path)
    driver = replace(now.node.driver, loaded="999.01", known=False, rows=Rows(rows))
    ours = replace(now.node.ours, by_row=words == "row", provisional=words == "provisional")
    now = replace(now, node=replace(now.node, driver=driver, ours=ours), status=None)
    assert f"driver    NVIDIA 999.01, open, {line}\n" in status.as_text(now, status.judge(now))


def test_a_refused_configuration(tmp_path: Path, sound: None) -> None:
    """While the engine is down, status names the line of a wrong configuration; else it is not asked."""
    problem = "/etc/cgpu/config.yaml:3: polcy: 2: there is no such key; did you mean policy?"
    down = node_report(tmp_path, config_problem=problem)
    down = replace(down, node=replace(down.node, ours=replace(down.node.ours, engine=None)))
    ready = status.judge(down)
    assert ready.exit is Exit.NOT_READY
    assert ready.why == f"the engine is not running, and it refuses its configuration: {problem}"
    assert ready.fix.startswith("correct it (cgpu config check), then: ")
    running = node_report(
        tmp_path,
        config_problem=problem,
        snapshot=Snapshot({}, (card(),)),
        settings=(Entry("docker", "f", "/bin/sh"),),
    )
    assert status.judge(running).exit is Exit.READY


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({}, Exit.READY),
        ({"settings": ()}, Exit.NO_RUNTIME),
        ({"snapshot": Snapshot({}, (FULL,))}, Exit.FULL),
        ({"snapshot": Snapshot()}, Exit.NOT_READY),
        ({"snapshot": Snapshot({}, (card(mig="1"),))}, Exit.NOT_READY),
        ({"snapshot": Snapshot({}, (card(stat=stat(lost=1)),))}, Exit.NOT_READY),
        ({"snapshot": Snapshot({}, (card(stat=stat(lost=1)), card()))}, Exit.READY),
        ({"status_problem": "does not answer"}, Exit.NOT_READY),
    ],
)
def test_exit(tmp_path: Path, sound: None, changed: dict[str, Any], wanted: Exit) -> None:
    """The exit status says whether sliced containers can start, and the line why not."""
    well = {"snapshot": Snapshot({}, (card(),)), "settings": (Entry("docker", "f", "/bin/sh"),)}
    now = node_report(tmp_path, **{**well, **changed})
    found = status.judge(now)
    assert found.exit == wanted
    assert bool(found.why) == bool(found.fix) == (wanted is not Exit.READY)
    said = status.as_text(now, found)
    assert (f"no: {found.why}" if found.why else "can start: yes") in said
    document = json.loads(status.as_json(now, found))
    assert document["exit"] == int(wanted)
    assert document["ready"] is (wanted is Exit.READY)


def test_text_of_a_card(tmp_path: Path) -> None:
    """A card and its containers are a line each; what is reserved and unused is on the card's."""
    one = Slice(
        "c", {"memsize": str(6 << 20), "stat": slice_line("c", used=4 << 20), "weight": "3", "highprio": "1"}
    )
    counters = stat(memtotal=15 << 20, promised=6 << 20, places=1)
    nodes = {**GPU, "memtotal": str(15 << 20), "sched": "divided_by=nobody", "stat": counters}
    gpu = Card(0, nodes, (one,), "preemptive")
    now = node_report(tmp_path, snapshot=Snapshot({}, (gpu,)))
    lines = status.as_text(now, status.Readiness(Exit.READY)).splitlines()
    assert lines[-2] == (
        "GPU 0  Tesla T4, 6 MiB of 15 MiB promised, 1 of 2 containers, policy 1 (preemptive, not enforced)"
    )
    assert lines[-1] == "  c             6 MiB, 4 MiB used, weight 3, high priority"
    gpu.nodes["stat"] = stat(promised=9 << 20, places=2, lost=1)
    text = status.as_text(now, status.Readiness(Exit.READY))
    assert "9 MiB of 15 MiB promised (3 MiB reserved and unused), 1 of 2" in text
    assert ", not enforced), lost\n" in text
    (found,) = json.loads(status.as_json(now, status.Readiness(Exit.READY)))["gpus"]
    assert found["lost"] is True
    assert (found["promised"], found["reserved"], found["full"]) == (9 << 20, 3 << 20, True)


def test_report(tmp_path: Path) -> None:
    """Problems come first, each with its fix; what is well only where it is asked for. Each is one line."""
    lines = doctor.as_text(FOUND, everything=False).splitlines()
    assert lines[0] == "PROBLEM  engine   no engine\\nis running"
    assert lines[1].strip() == "fix: cgpud"
    assert lines[-1] == "1 problem, 1 warning, 1 ok, 1 skipped"
    assert len(lines) == 5
    assert "NVIDIA 580.142" in doctor.as_text(FOUND, everything=True)
    document = doctor.document(node_report(tmp_path), FOUND, ["x: done"])
    assert not document["good"]
    assert document["counts"] == {"problem": 1, "warning": 1, "ok": 1, "skipped": 1}
    assert doctor.is_good(FOUND[2:])


def test_a_check_that_fails_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that raises is a problem of its own; the others are made."""

    def broken(now: NodeReport) -> list[Finding]:
        raise KeyError("x")

    monkeypatch.setattr(doctor, "CHECKS", (broken, places.room))
    found = doctor.examine(node_report(tmp_path))
    assert [(one.name, one.verdict) for one in found[-2:]] == [("check-failed", "problem"), ("room", "ok")]


def test_simulated_cards_need_no_driver(tmp_path: Path) -> None:
    """With simulated cards the missing driver is no finding."""
    now = node_report(tmp_path, status={"simulate": "T4"})
    now = replace(now, node=node(tmp_path, driver={"loaded": None, "installed": False}))
    assert [one.text for one in doctor.examine(now) if one.name == "driver"] == ["simulated cards: T4"]


@pytest.mark.parametrize(
    ("text", "verdict", "fix"),
    [
        (RECORD, "problem", "cgpu install; or to take it back: cgpu uninstall"),
        (RECORD.replace("install", "uninstall"), "problem", "cgpu uninstall"),
        (RECORD.replace("install", ""), "ok", None),
        ("{}", "problem", "cgpu support-bundle, and report it"),
    ],
)
def test_leftovers(tmp_path: Path, text: str, verdict: str, fix: str | None) -> None:
    """A record of an installation that has not ended is a problem, with the command that goes on."""
    now = node_report(write(tmp_path, {"var/lib/cgpu/install/record.json": text}))
    now = replace(now, node=replace(now.node, ours=replace(now.node.ours, record=Path("/r"))))
    (found,) = places.leftovers(now)
    assert (found.verdict, found.fix or None) == (verdict, fix)


def test_draining(tmp_path: Path) -> None:
    """While the node is emptied, status and doctor say why nothing starts."""
    now = node_report(tmp_path)
    assert places.draining(now)[0].verdict == "ok"
    (tmp_path / "run/cgpu-draining").touch()
    assert places.draining(now)[0].verdict == "problem"
    assert status.judge(now).exit is Exit.NOT_READY


def test_a_fix_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """doctor prints a line for a fix that fails, and tries the next one."""

    def refuse(now: NodeReport) -> str:
        raise CgpuError("no")

    monkeypatch.setattr(doctor, "FIXES", {"engine": refuse, "systemd": lambda _: "done"})
    assert list(doctor.fix(node_report(tmp_path), FOUND)) == ["engine: not fixed: no", "systemd: done"]


def test_what_publishes_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """--fix has systemd start it, where systemd has the units, and waits for its first files."""
    ran: list[tuple[str, ...]] = []
    now = node_report(tmp_path)

    class Systemctl:
        def run(self, words: Sequence[str], timeout: float = 0) -> Done:
            ran.append(tuple(words))
            write(tmp_path, {"run/cgpu-smi/everyone.json": json.dumps({"at": time.monotonic(), "gpus": []})})
            return Done(0, "")

    monkeypatch.setattr(doctor, "SystemRunner", Systemctl)
    found = [Finding(publisher.NAME, "warning", "nothing publishes", publisher.START)]
    assert list(doctor.fix(now, found)) == []
    write(tmp_path, {f"etc/systemd/system/{name}": "" for name in (PUBLISHER, PUBLISHER_STARTS)})
    assert list(doctor.fix(now, found)) == [f"slices-published: started {PUBLISHER}"]
    assert ran == [
        ("systemctl", "enable", "--now", PUBLISHER_STARTS),
        ("systemctl", "restart", PUBLISHER),
    ]


@pytest.mark.root
def test_permissions_are_closed_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An open folder becomes root's alone; doctor follows no link in a folder's place."""
    folder, behind, link = tmp_path / "folder", tmp_path / "behind", tmp_path / "link"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    os.chown(folder, 1000, 1000)
    behind.write_text("x")
    behind.chmod(0o666)
    link.symlink_to(behind)
    monkeypatch.setattr(doctor, "PRIVATE", {str(folder): 0o077, str(tmp_path / "none"): 0o077})
    found = [Finding("permissions", "problem", "open", "chmod")]
    assert list(doctor.fix(node_report(tmp_path / "root"), found)) == [f"permissions: closed {folder}"]
    about = folder.stat()
    assert (about.st_uid, about.st_gid, about.st_mode & 0o7777) == (0, 0, 0o700)
    monkeypatch.setattr(doctor, "PRIVATE", {str(link): 0o077})
    (line,) = doctor.fix(node_report(tmp_path / "other"), found)
    assert line.startswith("permissions: not fixed")
    assert behind.stat().st_mode & 0o7777 == 0o666
