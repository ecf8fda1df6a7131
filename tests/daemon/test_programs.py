# SPDX-License-Identifier: Apache-2.0
"""Runs the C tests of the daemon, each in a process of its own."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.daemon.harness import BUILD, PROGRAMS, ROOT
from tests.daemon.versions import CORE, library_objects

BENCH = ROOT / "tests" / "core" / "bench"
# By their names, with the functions that each has its own of.
WRAPPED = {
    "architectures": (),
    "external_ledger": (
        "process_has_ended",
        "process_started",
        "devices_identify",
        "uvm_take_away",
        "workers_wake",
        "calloc",
    ),
    "killed_in_call": (),
    "late_events": ("epoll_wait", "cgroup_holds", "cgroup_populated", "reaper_reconcile"),
    "listening": (),
    "managed_spaces": ("process_has_ended", "process_started", "notice_stands"),
    "samples": ("rm_control",),
    "timeslice_places": (),
}
TESTS = [
    (stem, name)
    for stem in WRAPPED
    for name in re.findall(r"^TEST\((\w+)\)$", (PROGRAMS / f"{stem}.c").read_text(), re.MULTILINE)
]


def linked(source: Path, wrapped: Sequence[str], output: Path) -> Path:
    """Return the program; it says itself what the wrapped functions do."""
    daemon = sorted({header.parent for header in (ROOT / "kmod" / "daemon").glob("*/*.h")})
    folders = [BUILD / "gen", *CORE, *daemon, BENCH, ROOT / "kmod" / "rm"]
    command = ["gcc", "-std=gnu11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"]
    command += [f"-Wl,--wrap={name}" for name in wrapped]
    command += [word for folder in folders for word in ("-iquote", str(folder))]
    command += [*map(str, [source, *sorted(BENCH.glob("*.c")), *library_objects()]), "-o", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return output


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Build every one once."""
    output = tmp_path_factory.mktemp("programs")
    return {stem: linked(PROGRAMS / f"{stem}.c", names, output / stem) for stem, names in WRAPPED.items()}


@pytest.mark.parametrize(("stem", "name"), TESTS)
def test_fact(programs: dict[str, Path], stem: str, name: str) -> None:
    """The fact that a C test is named after holds."""
    command = [str(programs[stem]), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("stem", WRAPPED)
def test_program_lists_its_tests(programs: dict[str, Path], stem: str) -> None:
    """What it says it holds is what was run."""
    listed = subprocess.run(
        [programs[stem], "--list"], capture_output=True, text=True, check=True, timeout=60
    )
    assert listed.stdout.split() == [name for one, name in TESTS if one == stem]
