# SPDX-License-Identifier: Apache-2.0
"""A reader that keeps entries of the tree open, as the exporter does, sees each daemon that comes."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from cgpu.kmod.daemon.program import Program
from tests.daemon.conftest import MakeDaemon
from tests.daemon.harness import MIB, Daemon, long_id
from tests.daemon.scraper import Scraper
from tests.daemon.upgrades import upgrade
from tests.integration.commands import eventually

CAPPED = "policy: 3\n"
REFUSED = (
    ("opencgpu_slice_memory_refusals_total", 'reason="limit"'),
    ("opencgpu_container_refused_calls_total", 'reason="class"'),
    ("opencgpu_container_refused_calls_total", 'reason="control"'),
)
# Metrics above zero for a slice that computes, and was refused memory, a class and a control.
COUNTED = (
    ("opencgpu_slice_usage_seconds_total", ""),
    ("opencgpu_slice_throttled_seconds_total", ""),
    *REFUSED,
    ("opencgpu_gpu_usage_seconds_total", ""),
    ("opencgpu_gpu_memory_refusals_total", 'reason="limit"'),
    ("opencgpu_engine_refused_calls_total", 'reason="class"'),
    ("opencgpu_engine_calls_total", 'outcome="refused"'),
    *(
        (f"opencgpu_engine_call_duration_seconds_{kind}", f'outcome="{outcome}"')
        for kind in ("sum", "count")
        for outcome in ("executed", "continued", "answered")
    ),
)


def no_smaller(scraper: Scraper, before: dict[str, float]) -> dict[str, float]:
    """Return the counters, each of which is there still, and has not gone back."""
    after = scraper.counters()
    assert {name: after.get(name) for name, old in before.items() if after.get(name, -1.0) < old} == {}
    return after


def await_counts(scraper: Scraper, before: dict[str, float]) -> dict[str, float]:
    """Wait until the time of a slice that computes goes on to be counted; return the counters."""
    names = ("opencgpu_slice_usage_seconds_total", "opencgpu_slice_throttled_seconds_total")
    figures = [scraper.figure(name) for name in names]
    eventually(
        lambda: all(scraper.figure(name) > old for name, old in zip(names, figures, strict=True)),
        "the slice's time is counted no more",
    )
    return no_smaller(scraper, before)


def refusals(scraper: Scraper) -> list[float]:
    """Return what was refused. An interrupted call counts again: cgpud looks at new processes' filters."""
    return [scraper.figure(*one) for one in REFUSED]


def reload(daemon: Daemon, settings: str) -> None:
    (daemon.run.parent / "config.yaml").write_text(settings)
    os.kill(daemon.pid(), signal.SIGHUP)
    eventually(lambda: "configuration reloaded" in daemon.log(), "not reloaded", instead=daemon.log)


@pytest.mark.enforcement
def test_counters_survive_every_end(make_daemon: MakeDaemon, newer: Program, converting: Program) -> None:
    """After a reload, kill -9, a stop, and upgrades with the same and another layout none is smaller.

    The slice computes throughout, has a part of the card, and was refused memory, classes and controls.
    """
    daemon = make_daemon("T4", CAPPED)
    words = ["alloc=256M", "free=last", *["alloc=1G"] * 3, "class=0x7001", "class=0x7002", "runlist-policy=0"]
    sliced = daemon.slice(
        1, f"gpu=0:{512 * MIB}:8", *words, "alloc=1M", "group", "busy=600s:1ms", until="group"
    )
    scraper = Scraper(daemon)
    used = ("opencgpu_slice_memory_used_bytes", f'id="{long_id(1)[:12]}"')
    memory = scraper.figure(*used)
    assert memory > MIB
    eventually(lambda: all(scraper.figure(*one) > 0 for one in COUNTED), "each of these counts")
    refused = refusals(scraper)
    assert all(found >= made for found, made in zip(refused, (3, 2, 1), strict=True))
    before = await_counts(scraper, scraper.counters())
    reload(daemon, f"{CAPPED}drift_tolerance: 1000000000\n")
    before = await_counts(scraper, before)
    daemon.crash(lambda: scraper.figure("opencgpu_up"))
    before = await_counts(scraper, before)
    for version, program in (("0.2.0", newer), ("0.3.0", converting)):
        upgrade(daemon, program)
        assert scraper.figure("opencgpu_engine_info", f'version="{version}"') == 1
        before = await_counts(scraper, before)
    daemon.crash()
    before = await_counts(scraper, before)
    ends = [scraper.figure(f"opencgpu_engine_{what}_total") for what in ("reloads", "restarts", "upgrades")]
    assert ends == [1, 4, 2]
    assert scraper.figure(*used) == memory
    assert scraper.figure("opencgpu_slice_memory_peak_bytes") >= 256 * MIB
    daemon.enter(sliced, "alloc=1G", "class=0x7001").finish()
    assert [now > was for now, was in zip(refusals(scraper), refused, strict=True)] == [True, True, False]
    sliced.kill()
    assert daemon.command("--stop").returncode == 0
    assert scraper.figure("opencgpu_up") == 0
    daemon.start()
    assert scraper.figure("opencgpu_up") == 1


def test_a_tree_that_was_unmounted(fresh: Daemon) -> None:
    """A reader of a tree that is out of reach lets go of it, so that the daemon misses it and starts anew."""
    scraper = Scraper(fresh)
    assert scraper.figure("opencgpu_up") == 1
    before = fresh.pid()
    subprocess.run(["umount", "--lazy", str(fresh.tree)], check=True)
    assert scraper.figure("opencgpu_up") == 0
    eventually(lambda: fresh.is_another(before), "another daemon serves a tree")
    assert scraper.figure("opencgpu_up") == 1
    assert scraper.figure("opencgpu_engine_restarts_total") == 1


def test_a_tree_that_another_one_covers(fresh: Daemon, tmp_path: Path) -> None:
    """The figures are those of the tree at the path, though the engine of the one below lives."""
    scraper = Scraper(fresh)
    assert scraper.figure("opencgpu_up") == 1
    subprocess.run(["mount", "--bind", str(tmp_path), str(fresh.tree)], check=True)
    assert scraper.figure("opencgpu_up") == 0
    subprocess.run(["umount", str(fresh.tree)], check=True)
    assert scraper.figure("opencgpu_up") == 1


def test_an_entry_that_goes_is_gone_at_once(fresh: Daemon) -> None:
    """The kernel may keep attributes, and asks for each use of a path whether it is there."""
    folder = fresh.tree / "0" / long_id(7)[:12]
    for _ in range(3):
        fresh.write("inst_ctl", f"create id={long_id(7)} pid={os.getpid()} gpu=0:{MIB}\n")
        assert folder.stat().st_mode == (fresh.tree / "0").stat().st_mode
        fresh.write("inst_ctl", f"destroy id={long_id(7)}\n")
        with pytest.raises(FileNotFoundError):
            folder.stat()
