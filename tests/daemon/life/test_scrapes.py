# SPDX-License-Identifier: Apache-2.0
"""A reader that keeps entries of the tree open, as the exporter does, sees each daemon that comes."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from cgpu.kmod.daemon.program import Program
from tests.daemon import versions
from tests.daemon.conftest import MakeDaemon
from tests.daemon.harness import MIB, Daemon, long_id
from tests.daemon.scraper import Scraper
from tests.daemon.upgrades import upgrade
from tests.integration.commands import eventually


@pytest.fixture(scope="module")
def newer(others: Path) -> Program:
    """A newer version with the same layout of the state."""
    return versions.build(others, "0.2.0")


# What a slice that computes, and was refused memory, a class and a control, has more than nothing of.
COUNTED = (
    ("opencgpu_slice_usage_seconds_total", ""),
    ("opencgpu_slice_throttled_seconds_total", ""),
    ("opencgpu_slice_memory_refusals_total", 'reason="limit"'),
    ("opencgpu_gpu_usage_seconds_total", ""),
    ("opencgpu_gpu_memory_refusals_total", 'reason="limit"'),
    ("opencgpu_container_refused_calls_total", 'reason="class"'),
    ("opencgpu_container_refused_calls_total", 'reason="control"'),
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


def counts_on(scraper: Scraper, name: str) -> bool:
    before = scraper.figure(name)
    time.sleep(0.1)
    return scraper.figure(name) > before


@pytest.mark.enforcement
def test_scrapes_over_the_end_of_a_daemon(make_daemon: MakeDaemon, newer: Program) -> None:
    """After a crash, a stop and an upgrade the figures are those of the daemon that came, with its slices."""
    daemon = make_daemon("T4", "policy: 3\n")
    words = ["alloc=1M", "alloc=1G", "class=0x7001", "runlist-policy=0", "group", "busy=600s:1ms"]
    sliced = daemon.slice(1, f"gpu=0:{512 * MIB}:8", *words, until="group")
    scraper = Scraper(daemon)
    used = ("opencgpu_slice_memory_used_bytes", f'id="{long_id(1)[:12]}"')
    memory = scraper.figure(*used)
    assert memory > MIB
    eventually(lambda: all(scraper.figure(*one) > 0 for one in COUNTED), "each of these counts", 10)
    before = scraper.counters()
    daemon.crash(lambda: scraper.figure("opencgpu_up"))
    assert scraper.figure("opencgpu_engine_restarts_total") == 1
    assert scraper.figure(*used) == memory
    before = no_smaller(scraper, before)
    pid = daemon.pid()
    upgrade(daemon, newer)
    assert scraper.figure("opencgpu_engine_info", 'version="0.2.0"') == 1
    eventually(lambda: not Path(f"/proc/{pid}").exists(), "the one before ends")
    assert scraper.figure("opencgpu_engine_upgrades_total") == 1
    assert scraper.figure(*used) == memory
    no_smaller(scraper, before)
    eventually(lambda: counts_on(scraper, "opencgpu_slice_usage_seconds_total"), "its time goes on")
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
